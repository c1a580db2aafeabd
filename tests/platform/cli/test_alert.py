"""`alcove alert` beside a data folder, and `alcove serve --alerts`: from a halt to the receiver, and back."""

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from alcove.platform.store import Store
from alcove.platform.store.alerts import DeliveryState, add_deliveries, claim_deliveries, end_delivery
from alcove.platform.testing import ServerWorld

from tests.platform.alerts.receivers import make_alert, write_secret
from tests.platform.cli.terminal import alcove


class Receiver(HTTPServer):
    """A receiver in a thread; `status` is what it answers."""

    status = 204

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.events: list[dict[str, Any]] = []
        self.came = threading.Condition()

    def wait_for(self, kind: str, timeout_s: float = 120.0) -> dict[str, Any]:
        """Return the first event of a type, once it has come."""

        def find() -> dict[str, Any] | None:
            return next((each for each in self.events if each["type"] == kind), None)

        with self.came:
            assert self.came.wait_for(lambda: find() is not None, timeout_s), self.events
        found = find()
        assert found is not None
        return found


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        """Keep the event, and answer."""
        event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.came:
            self.server.events.append(event)
            self.server.came.notify_all()
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver on loopback."""
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def write_config(folder: Path, port: int) -> Path:
    """Write alerts.toml with one webhook, and its secret."""
    write_secret(folder / "pager.secret")
    path = folder / "alerts.toml"
    path.write_text(
        f'console = "https://console.example"\n\n[[webhook]]\nname = "pager"\nurl = "http://localhost:{port}/hook"\n'
        'secret_file = "pager.secret"\nallow_addresses = ["127.0.0.0/8", "::1/128"]\n'
    )
    return path


@pytest.fixture
def data_dir(tmp_path: Path, migrated_file: Path) -> Path:
    """A data folder with a delivery that waits and one that is dead."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "alcove.db").write_bytes(migrated_file.read_bytes())

    async def fill() -> None:
        store = await Store.open(folder / "alcove.db")
        async with store.write() as session:
            for number in (1, 2):
                await add_deliveries(session, make_alert(number), ["pager"], now_s=1_800_000_000)
            claimed, _ = await claim_deliveries(session, "pager", now_s=1_800_000_000, until_s=1_800_000_060, size=2)
            await end_delivery(session, claimed, DeliveryState.DEAD, now_s=1_800_000_001, problem="x answered 500")
        await store.close()

    asyncio.run(fill())
    return folder


def test_what_waits_and_what_died_is_listed_shown_and_sent_again(data_dir: Path) -> None:
    """Numbers, problems and facts are there; a retried one waits again, and that is audited."""
    here = ("--data-dir", data_dir)
    assert [each["state"] for each in alcove("alert", "list", *here, "--json").json] == ["waiting", "dead"]
    assert "x answered 500" in alcove("alert", "list", *here, "--state", "dead").out
    assert alcove("alert", "list", *here, "--to", "nobody").out == "nothing waits, and nothing was given up\n"
    shown = alcove("alert", "show", "1", *here).out
    assert shown.startswith("Rollout ro-1 was halted at 10 % of the devices: crashes.\n")
    assert "event: alcove.rollout.halted\n" in shown
    assert "reason: crashes\n" in shown
    assert alcove("alert", "show", "9", *here).code == 4
    assert alcove("alert", "retry", *here).code == 2
    assert alcove("alert", "retry", "--all-dead", *here).out == "1 delivery will be sent again by the server\n"
    assert [each["state"] for each in alcove("alert", "list", *here, "--json").json] == ["waiting", "waiting"]
    assert alcove("audit", "list", *here, "--json").json[0]["action"] == "retry alert"


def test_a_test_says_of_each_destination_whether_it_arrived(tmp_path: Path, receiver: Receiver) -> None:
    """Without a server; a destination that refuses makes the command fail."""
    path = write_config(tmp_path, receiver.server_port)
    done = alcove("alert", "test", "--config", path, "--json")
    assert (done.code, done.json) == (0, [{"to": "pager", "outcome": "delivered", "problem": "-"}])
    assert receiver.events[0]["type"] == "alcove.alert.test"
    receiver.status = 500
    done = alcove("alert", "test", "--config", path)
    assert done.code == 1
    assert "localhost answered 500" in done.out
    assert alcove("alert", "test", "--config", path, "--to", "nobody").code == 2
    path.write_text("[[webhook]]\n")
    done = alcove("alert", "test", "--config", path)
    assert done.code == 1
    assert "webhook 1, name: " in done.err


@pytest.mark.thorough
def test_a_halt_reaches_the_receiver_though_the_server_is_killed_under_it(tmp_path: Path, receiver: Receiver) -> None:
    """A real server: an operator halts, the receiver fails, the server dies, the next one delivers under one id."""
    world = ServerWorld(tmp_path / "world", teams={"text": ("text_00",)})
    options = ("--alerts", str(write_config(tmp_path, receiver.server_port)), "--metrics-port", "0")
    receiver.status = 500
    served = world.start(*options)
    with world.client(served, "team:text") as team:
        world.publish(team, "text_00")
    with world.client(served, "operator") as operator:
        rollout = operator.create_rollout("mail", "text_00", "1.0.0")
        operator.halt_rollout(rollout.rollout_id, "crashes on start")
    receiver.wait_for("alcove.rollout.halted")
    served.kill()
    receiver.status = 204
    before = len(receiver.events)
    served = world.start(*options)
    with receiver.came:
        assert receiver.came.wait_for(lambda: len(receiver.events) > before, 120)
    assert served.stop() == 0
    ids = {each["id"] for each in receiver.events}
    assert len(ids) == 1
    event = receiver.events[-1]
    assert event["data"]["app"] == "mail"
    assert event["data"]["facts"]["reason"] == "crashes on start"
    assert event["data"]["link"] == f"https://console.example/rollouts/{rollout.rollout_id}"
    assert "crashes on start" not in served.log.read_text()


@pytest.mark.thorough
def test_a_server_with_a_wrong_file_does_not_start(tmp_path: Path) -> None:
    """Alerts that would go nowhere are found at the start."""
    world = ServerWorld(tmp_path / "world", teams={"text": ("text_00",)})
    with pytest.raises(RuntimeError, match=r"absent\.toml: No such file"):
        world.start("--alerts", str(tmp_path / "absent.toml"))
