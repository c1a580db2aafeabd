#!/usr/bin/env bash
# Runs on the machine that tools/systemd_test.sh boots: what docs/deploy/systemd.md says, and what its units promise.
set -euo pipefail
export HOME=/root
alcove=/opt/alcove/bin/alcove
step() { echo "alcove: under systemd: $*"; }
explain() {
  echo "--- failed at line $1"
  systemctl --failed --no-legend
  journalctl --no-pager --lines=60 --output=cat --unit=alcove-grpc --unit=alcove-ingress --unit=alcove-backup --unit=nginx
}
trap 'explain $LINENO' ERR
wait_for() { for _ in $(seq 240); do if "$@" > /dev/null 2>&1; then return 0; fi; sleep 0.5; done; echo "waited in vain: $*"; return 1; }

# The page's commands but the last, before which keys and settings have to be there.
bash -euo pipefail <(sed '$d' commands)

admin=/srv/admin
mkdir -m 0700 "$admin"
cd "$admin"
"$alcove" keys create keys --team text=language_id --data-dir data > /dev/null
install -d -o alcove -g alcove -m 0750 /var/lib/alcove
cp -r data/. /var/lib/alcove && chown -R alcove:alcove /var/lib/alcove
install -d -m 0755 /etc/alcove /etc/alcove/tls
install -d -o alcove -m 0700 /etc/alcove/online
install -o alcove -m 0600 data-keys/*.pem /etc/alcove/online
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=server -keyout key.pem -out ca.pem \
  -addext "subjectAltName=DNS:localhost,IP:127.0.0.1" 2> /dev/null
install -o alcove -m 0600 key.pem /etc/alcove/tls/server.key
install -o alcove -m 0644 ca.pem /etc/alcove/tls/server.pem

wait_for systemctl --quiet is-active postgresql@15-main
sql() { (cd / && runuser -u postgres -- psql --quiet --set ON_ERROR_STOP=1 "$@"); }
for name in "DATABASE IF EXISTS alcove" "ROLE IF EXISTS devices" "ROLE IF EXISTS alcove"; do sql --command "DROP $name" 2> /dev/null; done
sql --command "CREATE ROLE alcove LOGIN PASSWORD 'rows'" --command "CREATE DATABASE alcove OWNER alcove"
secret() { install -m 0600 -o "$1" /dev/stdin "$2"; }  # owner, path; the text comes in
echo "127.0.0.1:5432:alcove:alcove:rows" | secret alcove /etc/alcove/pgpass
echo "127.0.0.1:5432:alcove:devices:secret" | secret alcove-devices /etc/alcove/devices.pgpass
printf '%s\n' ALCOVE_DATABASE=postgresql://alcove@127.0.0.1/alcove PGPASSFILE=/etc/alcove/pgpass | secret root /etc/alcove/environment
printf '%s\n' ALCOVE_DATABASE=postgresql://devices@127.0.0.1/alcove PGPASSFILE=/etc/alcove/devices.pgpass |
  secret root /etc/alcove/devices.environment

# The database gets its tables from the first start; the devices' role is granted a part of them by the page of the two processes.
systemctl start alcove-grpc
wait_for curl --fail --silent http://127.0.0.1:9464/metrics
sed -n '/^CREATE ROLE devices/,/^```/p' /checkout/docs/deploy/serving.md | grep -v '```' > roles.sql
sql alcove < roles.sql
bash -euo pipefail <(tail -1 /checkout/commands)
wait_for curl --fail --silent http://127.0.0.1:7480/healthz
step "services start as the page says"

{ echo "user www-data alcove;"
  sed -e 's|ssl_certificate .*|ssl_certificate /etc/alcove/tls/server.pem;|' \
      -e 's|ssl_certificate_key .*|ssl_certificate_key /etc/alcove/tls/server.key;|' \
      -e 's|root /srv/alcove/tree;|root /var/lib/alcove/tree;|' /checkout/docs/deploy/nginx.conf; } > /etc/nginx/nginx.conf
systemctl restart nginx
wait_for curl --fail --silent --cacert ca.pem https://localhost/healthz

token() {
  set -a; . /etc/alcove/environment; set +a
  install -d -o alcove -m 0700 /run/tokens
  runuser -u alcove -- "$alcove" token create --data-dir /var/lib/alcove --role "$1" --out "/run/tokens/$2" > /dev/null
  install -m 0600 "/run/tokens/$2" "$2"
}
token team:text team.token
token operator operator.token
program=$(ls -v /opt/alcove/lib/python3.11/site-packages/alcove/features/language_id/programs/*.alc | tail -1)
publish() {  # VERSION
  local where=(--server 127.0.0.1:7443 --tls-root ca.pem)
  "$alcove" model push "$program" --feature language_id --version "$1" --team text --key keys/teams/text.pem --token-file team.token "${where[@]}"
  "$alcove" model validate "language_id@$1" --token-file team.token "${where[@]}"
  "$alcove" model release "language_id@$1" --token-file team.token "${where[@]}" --reason "it passed"
  "$alcove" rollout create --app messenger --feature language_id --version "$1" --share 100% --override-reason "first release" \
    --token-file operator.token "${where[@]}"
}
sync() { SSL_CERT_FILE=$PWD/ca.pem /opt/alcove/bin/python /checkout/tools/systemd_device.py "$1"; }
publish 9.0.0 > publish.log
sync 9.0.0
step "a device has what a team pushed"

restarted() { test "$(systemctl show --property=NRestarts --value "$1")" = 1; }
for unit in alcove-grpc alcove-ingress; do
  systemctl kill --signal=KILL "$unit"
  wait_for restarted "$unit"
done
wait_for curl --fail --silent http://127.0.0.1:9464/metrics
wait_for curl --fail --silent http://127.0.0.1:7480/healthz
publish 9.0.1 >> publish.log
sync 9.0.1
step "killed services come back and publish"

pid=$(systemctl show --property=MainPID --value alcove-ingress)
as_devices() { nsenter --target "$pid" --mount runuser -u alcove-devices -g alcove -- "$@"; }
as_devices cat /var/lib/alcove/tree/metadata/timestamp.json > /dev/null
for path in /etc/alcove/online/policy.pem /etc/alcove/tls/server.key /etc/alcove/environment; do
  if as_devices cat "$path" 2> /dev/null; then echo "the devices' process reads $path"; exit 1; fi
done
for path in /var/lib/alcove/x /etc/alcove/x /usr/x; do
  if nsenter --target "$pid" --mount touch "$path" 2> /dev/null; then echo "the devices' process may write $path"; exit 1; fi
done
step "the devices' process reads the tree and no key, and writes nothing"

mkdir -p /etc/systemd/system/alcove-backup.timer.d
printf '[Timer]\nRandomizedDelaySec=0\nOnCalendar=*:*:0/10\nAccuracySec=1s\n' > /etc/systemd/system/alcove-backup.timer.d/soon.conf
systemctl daemon-reload
systemctl restart alcove-backup.timer
made() { runuser -u alcove -- "$alcove" server backups /var/backups/alcove | grep -q "$(date +%Y)"; }
wait_for made
systemctl stop alcove-backup.timer
runuser -u alcove -- "$alcove" server backups /var/backups/alcove
step "the timer makes a backup"

systemctl stop alcove-ingress alcove-grpc
for unit in alcove-grpc alcove-ingress; do
  test "$(systemctl show --property=Result --value "$unit")" = success
  test "$(systemctl show --property=ExecMainStatus --value "$unit")" = 0
done
step "services end with 0"
trap - ERR
