"""deploy/container: the compose file's services, run without containers by the commands that it gives them."""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from alcove.features.language_id.contract import LanguageId
from alcove.platform.cli.entry import main
from alcove.platform.testing.certificates import Authority
from alcove.platform.testing.nginx import NGINX
from alcove.platform.testing.postgres import PostgresServer
from alcove.platform.testing.s3 import S3Server
from alcove.sdk import Client

from tests.platform.deploy.checkers import find_checker

WAIT_S = 120.0
ALCOVE = [sys.executable, "-W", "error", "-m", "alcove.platform.cli.entry"]
SECRETS = "/run/secrets/"


@pytest.fixture(scope="session")
def folder(repository: Path) -> Path:
    """Where the container's files are."""
    return repository / "deploy/container"


@pytest.fixture(scope="session")
def compose(folder: Path) -> dict[str, Any]:
    """The compose file."""
    found: dict[str, Any] = yaml.safe_load((folder / "compose.yaml").read_text(encoding="utf-8"))
    return found


def test_every_container_is_confined(compose: dict[str, Any]) -> None:
    """Read-only root, no capabilities, no new privileges, a bound of processes; no secret in an environment."""
    for name, service in compose["services"].items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["pids_limit"], name
        assert "privileged" not in service, name
        tag = service["image"].rpartition(":")[2]
        assert tag != "latest", name
        assert re.search("[0-9]", tag), name
        for variable, value in service.get("environment", {}).items():
            if re.search("PASS|SECRET|KEY|TOKEN", variable):
                assert str(value).startswith(SECRETS), f"{name}: {variable}"


def test_what_lasts_answers_health_checks_and_starts_in_order(compose: dict[str, Any]) -> None:
    """Everything but the one-shot has a check, and what depends on something waits until that is healthy."""
    services = compose["services"]
    for name, service in services.items():
        assert ("healthcheck" in service) == (service["restart"] != "no"), name
        for other, how in service.get("depends_on", {}).items():
            wanted = "service_healthy" if "healthcheck" in services[other] else "service_completed_successfully"
            assert how["condition"] == wanted, f"{name} on {other}"


def test_every_secret_and_volume_that_is_named_is_declared_and_used(compose: dict[str, Any]) -> None:
    """No secret that nobody mounts; files of secrets lie in ./secrets, which git does not keep."""
    used = {
        one if isinstance(one, str) else one["source"]
        for service in compose["services"].values()
        for one in service.get("secrets", [])
    }
    assert used == set(compose["secrets"])
    assert all(one["file"].startswith("./secrets/") for one in compose["secrets"].values())
    volumes = {
        one.partition(":")[0]
        for service in compose["services"].values()
        for one in service.get("volumes", [])
        if not one.startswith(".")
    }
    assert volumes == set(compose["volumes"])


def test_devices_reach_nginx_alone(compose: dict[str, Any]) -> None:
    """Published are the teams' port and nginx; keys are mounted into the teams' process alone."""
    services = compose["services"]
    assert {name for name, service in services.items() if "ports" in service} == {"grpc", "nginx"}
    online = {"policy", "halt", "snapshot", "timestamp"}
    for name, service in services.items():
        sources = {one if isinstance(one, str) else one["source"] for one in service.get("secrets", [])}
        assert (online <= sources) == (name == "grpc")
        assert name == "grpc" or not online & sources


@pytest.mark.parametrize(
    ("lines", "code", "said"),
    [
        ("# a comment\n\nAWS_SECRET_ACCESS_KEY=a b$c'd\n", 0, "a b$c'd"),
        ("AWS_SECRET_ACCESS_KEY=last", 0, "last"),
        (None, 0, "none"),
        ("touch /tmp/x\n", 2, ""),
        ("$(touch x)=1\n", 2, ""),
    ],
)
def test_environment_of_a_file_is_read_as_text(
    folder: Path, tmp_path: Path, lines: str | None, code: int, said: str
) -> None:
    """Values are taken as they stand; what is no NAME=value stops the container before anything starts."""
    path = tmp_path / "environment"
    if lines is not None:
        path.write_text(lines, encoding="utf-8")
    script = "import os; print(os.environ.get('AWS_SECRET_ACCESS_KEY', 'none'))"
    command = [str(folder / "with-environment"), str(path), sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout.strip()) == (code, said)


def test_containerfile_has_stages_a_user_and_only_what_is_copied(folder: Path) -> None:
    """Two stages of one pinned base, a user by number, the ignore file lets through what COPY names, no more."""
    text = (folder / "Containerfile").read_text(encoding="utf-8")
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == ["${BASE}", "${BASE}"]
    assert re.search(r"^ARG BASE=\S+:[0-9.]+-\S+$", text, re.MULTILINE)
    assert re.findall(r"^USER (\S+)", text, re.MULTILINE) == ["10001:10001"]
    copied = re.findall(r"^COPY (?:--chmod=\S+ )?(?!--from)(\S+) \S+$", text, re.MULTILINE)
    allowed = (folder / "Containerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert allowed[0] == "*"
    assert {line.removeprefix("!").removesuffix("*.whl") for line in allowed[1:]} == set(copied)


def test_compose_file_is_valid_by_its_specification(compose: dict[str, Any]) -> None:
    """Every key and value is one of the specification's, and so is every reference; a misspelled one is refused."""
    python = find_checker("hadolint").replace("hadolint", "python")
    script = "import sys; from compose_spec import PyCompose; PyCompose.from_json(sys.stdin.read()).validate()"
    text = json.dumps({name: value for name, value in compose.items() if not name.startswith("x-")})
    for given, code in ((text, 0), (text.replace("pids_limit", "pids_limitt"), 1)):
        done = subprocess.run([python, "-c", script], input=given, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr


class Stage:
    """The machine of the compose file: its secrets, its volume, and processes in the place of containers."""

    def __init__(self, compose: dict[str, Any], folder: Path, place: Path, stack: contextlib.ExitStack) -> None:
        self.compose, self.folder, self.place, self.stack = compose, folder, place, stack
        self.data, self.secrets = place / "data", place / "secrets"
        self.secrets.mkdir()

    def write_secret(self, name: str, data: bytes) -> None:
        """Write the file of a secret, for its owner alone."""
        path = self.secrets / self.compose["secrets"][name]["file"].removeprefix("./secrets/")
        path.parent.mkdir(exist_ok=True)
        path.touch(mode=0o600)
        path.write_bytes(data)

    def mount(self, service: str) -> Path:
        """Return a folder that holds a service's secrets at their places."""
        root = self.place / service
        for one in self.compose["services"][service]["secrets"]:
            source, target = (one, f"{SECRETS}{one}") if isinstance(one, str) else (one["source"], one["target"])
            path = root / target.removeprefix("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self.secrets / self.compose["secrets"][source]["file"].removeprefix("./secrets/"), path)
        return root

    def place_names(self, service: str, text: str, names: dict[str, str]) -> str:
        """Return a text of the file with this machine's names in it."""
        root = self.mount(service)
        for old, new in {
            SECRETS: f"{root}{SECRETS}",
            "/etc/alcove/online": f"{root}/etc/alcove/online",
            **names,
        }.items():
            text = text.replace(old, new)
        return text

    def serve(self, service: str, *ports: str, names: dict[str, str]) -> dict[str, Any]:
        """Start a service of the server; return its line of readiness."""
        found = self.compose["services"][service]
        names = {"/srv/alcove": str(self.data), "--host=0.0.0.0": "--host=127.0.0.1", **names}
        names |= {"--metrics-port=9464": "--metrics-port=0"}
        arguments = [self.place_names(service, one, names) for one in found["command"]]
        variables = {name: self.place_names(service, value, names) for name, value in found["environment"].items()}
        environment = self.mount(service) / "run/secrets/environment"
        command = [str(self.folder / "with-environment"), str(environment), *ALCOVE, *arguments, *ports]
        log = self.place / f"{service}.log"
        with log.open("w") as errors:
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, env=os.environ | variables
            )
        self.stack.callback(end, process)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, log.read_text(encoding="utf-8")
        ready: dict[str, Any] = json.loads(line)
        return ready

    def check_health(self, service: str, **ports: str) -> None:
        """Run a service's own health check."""
        test = self.compose["services"][service]["healthcheck"]["test"]
        assert test[0] == "CMD"
        words = [sys.executable if word == "python" else word for word in test[1:]]
        for old, new in ports.items():
            words = [word.replace(f"127.0.0.1:{old.removeprefix('p')}", new) for word in words]
        subprocess.run(words, check=True, timeout=WAIT_S)

    def start_nginx(self, repository: Path, upstream: str) -> str:
        """Write nginx's configuration as the service does, and run nginx with it; return its address."""
        (script,) = self.compose["services"]["nginx"]["command"]
        script, _, run = script.partition("exec ")
        assert run.startswith("nginx -c /tmp/nginx.conf")
        configuration = self.place / "nginx.conf"
        script = script.replace("/etc/alcove/nginx.conf", str(repository / "docs/deploy/nginx.conf"))
        script = script.replace("/tmp/nginx.conf", str(configuration))
        subprocess.run(["/bin/sh", "-ec", script], check=True)
        port = free_port()
        parts = ("body", "proxy", "fastcgi", "uwsgi", "scgi")
        temporary = {f"_temp_path /tmp/{part};": f"_temp_path {self.place}/{part};" for part in parts}
        names = {
            "ingress:7480": upstream,
            "listen 8443 ssl;": f"listen 127.0.0.1:{port} ssl;",
            "pid /tmp/nginx.pid;": f"pid {self.place}/nginx.pid; user root;",
            "root /srv/alcove/tree;": f"root {self.data}/tree;",
            **temporary,
        }
        text = configuration.read_text(encoding="utf-8")
        assert [name for name in names if text.count(name) != 1] == []
        configuration.write_text(self.place_names("nginx", text, names), encoding="utf-8")
        subprocess.run([NGINX, "-t", "-q", "-c", str(configuration)], check=True)
        log = self.place / "nginx.log"
        with log.open("w") as errors:
            process = subprocess.Popen([NGINX, "-c", str(configuration), "-g", "daemon off;"], stderr=errors)
        self.stack.callback(end, process)
        wait_for_port(port)
        return f"https://127.0.0.1:{port}"


def end(process: "subprocess.Popen[Any]") -> None:
    """Ask a process to end, and wait for it."""
    process.terminate()
    process.wait(WAIT_S)
    if process.stdout is not None:
        process.stdout.close()


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_port(port: int) -> None:
    """Wait until somebody listens."""
    until_s = time.monotonic() + WAIT_S
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=WAIT_S):
            return
        assert time.monotonic() < until_s
        time.sleep(0.05)


def alcove(*arguments: object) -> None:
    """Run a command; it must succeed."""
    assert main([str(argument) for argument in arguments]) == 0


@pytest.fixture
def stage(compose: dict[str, Any], folder: Path, tmp_path: Path) -> Iterator[Stage]:
    """A machine for one test."""
    with contextlib.ExitStack() as stack:
        yield Stage(compose, folder, tmp_path, stack)


@pytest.mark.needs("nginx")
@pytest.mark.thorough
def test_device_gets_what_a_team_pushed_through_the_composed_services(
    stage: Stage, repository: Path, postgres: PostgresServer, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL, an S3 store, nginx and both processes by the file's own commands: push, roll out, sync, predict."""
    place, data = stage.place, stage.data
    alcove("keys", "create", place / "keys", "--data-dir", data, "--team", "text=language_id")
    online = place / "data-keys"
    for name in ("policy", "halt", "snapshot", "timestamp"):
        stage.write_secret(name, (online / f"{name}.pem").read_bytes())
    shutil.move(place / "keys/teams", place / "team-keys")
    shutil.rmtree(place / "keys")  # no server starts beside others' keys
    shutil.rmtree(online)
    authority = Authority.create()
    pair = authority.server()
    for name, data_bytes in (("tls_certificate", pair.certificate), ("tls_key", pair.key), ("nginx_tls_key", pair.key)):
        stage.write_secret(name, data_bytes)
    stage.write_secret("pgpass", f"*:*:*:alcove:{postgres.password}\n".encode())
    stage.write_secret("environment", "".join(f"{k}={v}\n" for k, v in s3.environment().items()).encode())
    for name in s3.environment():
        monkeypatch.delenv(name)  # the services have them from their files
    database = f"postgresql://alcove@/{postgres.database()}?host={postgres.folder}"
    bucket = s3.bucket()
    (made,) = stage.compose["services"]["bucket"]["command"]
    assert "mc mb --ignore-existing models/models" in made
    names = {"postgresql://alcove@postgres/alcove": database, "s3://models": bucket, "172.28.0.0/24": "127.0.0.1"}

    grpc = stage.serve("grpc", "--grpc-port=0", names=names)
    stage.check_health("grpc", p9464=grpc["metrics"].removeprefix("http://").removesuffix("/metrics"))
    ingress = stage.serve("ingress", "--http-port=0", names=names)
    upstream = ingress["http"].removeprefix("http://")
    stage.check_health("ingress", p7480=upstream)
    url = stage.start_nginx(repository, upstream)

    (place / "ca.pem").write_bytes(authority.certificate)
    with monkeypatch.context() as caller:
        caller.setenv("PGPASSFILE", str(stage.secrets / "pgpass"))
        for role, file in (("operator", "operator.token"), ("team:text", "team.token")):
            alcove("token", "create", "--data-dir", data, "--database", database, "--role", role, "--out", place / file)
    where = ["--server", grpc["grpc"], "--tls-root", place / "ca.pem"]
    program = LanguageId().default_program
    what = ["--feature", "language_id", "--version", "9.0.0"]
    team = ["--team", "text", "--key", place / "team-keys/text.pem", "--token-file", place / "team.token"]
    alcove("model", "push", program, *what, *team, *where)
    moved = ["language_id@9.0.0", "--token-file", place / "team.token", *where]
    alcove("model", "validate", *moved)
    alcove("model", "release", *moved, "--reason", "it passed")
    first = ["--share", "100%", "--override-reason", "first release", "--token-file", place / "operator.token"]
    alcove("rollout", "create", "--app", "messenger", *what, *first, *where)
    assert not [path for path in (data / "tree").rglob("*") if path.stat().st_size == program.stat().st_size]

    monkeypatch.setenv("SSL_CERT_FILE", str(place / "ca.pem"))
    (place / "root.json").write_bytes((data / "tree/metadata/1.root.json").read_bytes())
    client = Client(app="messenger", data_dir=place / "device", server=url, trusted_root=place / "root.json")
    try:
        client.sync()
        answer = client.feature("language_id").predict("Wo ist der Bahnhof, bitte?")
        assert answer.version == "9.0.0"
        assert answer.value is not None
    finally:
        client.close()
    with urllib.request.urlopen(grpc["metrics"], timeout=WAIT_S) as page:
        assert b"alcove_signature_expiry_timestamp_seconds" in page.read()
