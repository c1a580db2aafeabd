"""Runs deploy/container/compose.yaml as docs/deploy/containers.md says (tools/image_test.sh calls it).

Takes the images as they are here, makes the secrets and the volume, starts all services, pushes a version as a team,
syncs as a device, kills a container, makes a backup, and stops everything. Prints a line for each step; ends with 1 at
the first that fails, with the log of each container.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from alcove.features.language_id.contract import LanguageId
from alcove.platform.testing.certificates import Authority
from alcove.sdk import Client

ROOT: Final = Path(__file__).resolve().parent.parent
ALCOVE: Final = ROOT / ".venv/bin/alcove"
WAIT_S: Final = 180.0
SERVER: Final = "127.0.0.1:7443"
DATABASE: Final = "postgresql://alcove@postgres/alcove"
INSIDE: Final = ("with-environment", "/run/secrets/environment", "alcove")
WHERE: Final = ("--data-dir=/srv/alcove", f"--database={DATABASE}")


def run(*command: object, **options: Any) -> str:
    """Run a command; return its output.

    Raises:
        SystemExit: it failed.
    """
    words = [str(word) for word in command]
    done = subprocess.run(words, check=False, text=True, capture_output=True, **options)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return str(done.stdout)


class Machine:
    """A machine that has the compose file and what the page asks for.

    Attributes:
        folder: where the compose file lies, a copy.
        place: what people keep elsewhere: keys, tokens, certificates, a device.
    """

    def __init__(self, place: Path) -> None:
        self.place = place
        self.folder = place / "checkout/deploy/container"
        shutil.copytree(ROOT / "deploy/container", self.folder)
        (place / "checkout/docs/deploy").mkdir(parents=True)
        shutil.copy(ROOT / "docs/deploy/nginx.conf", place / "checkout/docs/deploy/nginx.conf")

    def compose(self, *words: str) -> str:
        """Run podman-compose in the folder."""
        return run("podman-compose", *words, cwd=self.folder)

    def write_secret(self, name: str, data: bytes, owner: int, mode: int = 0o600) -> None:
        """Write a file for the user that reads it."""
        path = self.folder / "secrets" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(mode)
        os.chown(path, owner, owner)

    def prepare(self) -> None:
        """Make keys, secrets and the volume, by the page's commands."""
        place = self.place
        run(ALCOVE, "keys", "create", "keys", "--team", "text=language_id", "--data-dir", "data", cwd=place)
        for name in ("policy", "halt", "snapshot", "timestamp"):
            self.write_secret(f"online/{name}.pem", (place / f"data-keys/{name}.pem").read_bytes(), 10001)
        authority = Authority.create()
        pair = authority.server()
        (place / "ca.pem").write_bytes(authority.certificate)
        self.write_secret("tls.pem", pair.certificate, 10001, 0o644)
        self.write_secret("tls.key", pair.key, 10001)
        self.write_secret("nginx-tls.key", pair.key, 101)
        self.write_secret("pgpass", b"postgres:5432:alcove:alcove:rows-password\n", 10001)
        self.write_secret("postgres-password", b"rows-password\n", 999)
        self.write_secret("s3-user", b"store-user", 0)
        self.write_secret("s3-password", b"store-password", 0)
        variables = {
            "AWS_ENDPOINT_URL": "http://s3:9000",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "store-user",
            "AWS_SECRET_ACCESS_KEY": "store-password",
        }
        self.write_secret("environment", "".join(f"{k}={v}\n" for k, v in variables.items()).encode(), 10001)
        page = (ROOT / "docs/deploy/containers.md").read_text(encoding="utf-8")
        (fill,) = re.findall(r"`(docker run --rm -v alcove_data:/to .*?)`", page)
        run("bash", "-c", fill.replace("docker run", "podman run --network=none", 1), cwd=place)

    def create_token(self, role: str) -> Path:
        """Make a token in the container of the gRPC process; return the file with it."""
        inside = f"/tmp/{role.partition(':')[0]}.token"  # noqa: S108 - in the container
        self.compose("exec", "-T", "grpc", *INSIDE, "token", "create", *WHERE, "--role", role, "--out", inside)
        path = self.place / Path(inside).name
        path.touch(mode=0o600)
        path.write_text(self.compose("exec", "-T", "grpc", "cat", inside), encoding="utf-8")
        return path

    def publish(self, version: str) -> None:
        """Push, release and roll out a version of a feature."""
        team, operator = self.create_token("team:text"), self.create_token("operator")
        where = ["--server", SERVER, "--tls-root", self.place / "ca.pem"]
        what = ["--feature", "language_id", "--version", version]
        key = ["--team", "text", "--key", self.place / "keys/teams/text.pem", "--token-file", team]
        run(ALCOVE, "model", "push", LanguageId().default_program, *what, *key, *where)
        moved = [f"language_id@{version}", "--token-file", team, *where]
        run(ALCOVE, "model", "validate", *moved)
        run(ALCOVE, "model", "release", *moved, "--reason", "it passed")
        first = ["--share", "100%", "--override-reason", "first release", "--token-file", operator]
        run(ALCOVE, "rollout", "create", "--app", "messenger", *what, *first, *where)

    def sync(self, version: str) -> None:
        """Sync a device through nginx, and predict."""
        os.environ["SSL_CERT_FILE"] = str(self.place / "ca.pem")
        root = self.place / "keys/root.json"
        client = Client(app="messenger", data_dir=self.place / "device", server="https://127.0.0.1", trusted_root=root)
        with contextlib.closing(client):
            client.sync()
            answer = client.feature("language_id").predict("Wo ist der Bahnhof, bitte?")
        if answer.version != version or answer.value is None:
            raise SystemExit(f"the device answers {answer}")

    def state(self, service: str) -> dict[str, Any]:
        """Return what podman knows of a service's container."""
        (name,) = run("podman", "ps", "--all", "--format={{.Names}}", f"--filter=name=alcove_{service}_").split()
        (found,) = json.loads(run("podman", "inspect", name))
        result: dict[str, Any] = found
        return result

    def check_confined(self) -> None:
        """Compare what runs with what the file promises."""
        for service in ("grpc", "ingress", "nginx", "postgres", "s3"):
            script = (
                "grep -E '^(Uid|CapEff|NoNewPrivs|Seccomp):' /proc/1/status; if touch /x 2> /dev/null; then echo x; fi"
            )
            said = dict(
                line.split(":", 1) for line in self.compose("exec", "-T", service, "sh", "-c", script).splitlines()
            )
            wanted = {"CapEff": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2"}
            if {name: said[name].strip() for name in wanted} != wanted or "x" in said:
                raise SystemExit(f"{service}: {said}")
            if service != "s3" and said["Uid"].split()[0] == "0":
                raise SystemExit(f"{service} runs as root")

    def wait_healthy(self) -> None:
        """Run each service's health check until all hold."""
        until_s = time.monotonic() + WAIT_S
        for service in ("postgres", "s3", "grpc", "ingress", "nginx"):
            name = self.state(service)["Name"]
            while subprocess.run(["podman", "healthcheck", "run", name], check=False, capture_output=True).returncode:
                if time.monotonic() > until_s:
                    raise SystemExit(f"{service} is not healthy after {WAIT_S:.0f} s")
                time.sleep(1)

    def show_logs(self) -> None:
        """Print the last lines of each container."""
        for name in run("podman", "ps", "--all", "--format={{.Names}}").split():
            print(f"--- {name}", flush=True)
            subprocess.run(["podman", "logs", "--tail=30", name], check=False)


def check(machine: Machine) -> None:
    """Do what the page says, from the first start to the end."""

    def step(text: str) -> None:
        print(f"alcove: in containers: {text}", flush=True)

    machine.prepare()
    machine.compose("up", "--detach", "--no-build")
    machine.wait_healthy()
    step("every service is healthy")
    machine.check_confined()
    step("every service is confined as the file says")
    machine.publish("9.0.0")
    machine.sync("9.0.0")
    step("a device has what a team pushed")
    pid = machine.state("grpc")["State"]["Pid"]
    os.kill(pid, 9)
    until_s = time.monotonic() + WAIT_S
    while machine.state("grpc")["State"]["Pid"] in {pid, 0}:
        if time.monotonic() > until_s:
            raise SystemExit("a killed container does not come back")
        time.sleep(0.5)
    machine.wait_healthy()
    machine.publish("9.0.1")
    machine.sync("9.0.1")
    step("a killed gRPC process comes back and publishes")
    backup = ("run", "--rm", "grpc", "server", "backup", "s3://backups/alcove", *WHERE, "--blobs=s3://models/alcove")
    machine.compose(*backup)
    step("a backup is made")
    for service in ("grpc", "ingress"):
        name = machine.state(service)["Name"]
        run("podman", "stop", "--time=20", name)
        if (code := machine.state(service)["State"]["ExitCode"]) != 0:
            raise SystemExit(f"{service} ends with {code} at SIGTERM")
    step("the server ends with 0 at SIGTERM")


def main() -> int:
    """Run the check in a folder of its own; return the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(Path(folder))
        try:
            check(machine)
        except BaseException:
            machine.show_logs()
            raise
        finally:
            subprocess.run(
                ["podman-compose", "down", "--volumes"], cwd=machine.folder, check=False, capture_output=True
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
