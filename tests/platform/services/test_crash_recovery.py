"""kill -9 of a real server in the middle of writes, again and again: what was acknowledged is there, and only once."""

import threading
import uuid
from pathlib import Path

import pytest
from alcove.platform.client import ClientError, PlatformClient
from alcove.platform.services.auth.local import list_local_audit
from alcove.platform.testing import ServerWorld

WRITERS = 3
FEATURE = "text_00"


class Writer:
    """Creates rollouts one after the other; notes the request before it is sent, and the id once it is acknowledged."""

    def __init__(self, client: PlatformClient) -> None:
        self._client = client
        self.begun: list[str] = []
        self.acknowledged: dict[str, str] = {}
        self.thread = threading.Thread(target=self._write)

    def _write(self) -> None:
        while True:
            self.begun.append(uuid.uuid4().hex)
            try:
                made = self._client.create_rollout("app", FEATURE, "1.0.0", request_id=self.begun[-1])
            except ClientError:
                return
            self.acknowledged[self.begun[-1]] = made.rollout_id


def kill_again_and_again(folder: Path, kills: int) -> None:
    """Start, write, kill, look; each time a little later within a write."""
    world = ServerWorld(folder / "world", teams={"text": (FEATURE,)})
    server = world.start("--only", "grpc")
    with world.client(server, "team:text") as team:
        world.publish(team, FEATURE)
    acknowledged: dict[str, str] = {}
    for number in range(kills):
        clients = [world.client(server, "operator") for _ in range(WRITERS)]
        writers = [Writer(client) for client in clients]
        for writer in writers:
            writer.thread.start()
        done = threading.Event()
        while sum(len(writer.acknowledged) for writer in writers) <= number % 7:
            assert not done.wait(0.001 * (number % 11))
            assert any(writer.thread.is_alive() for writer in writers)
        server.kill()
        for writer, client in zip(writers, clients, strict=True):
            writer.thread.join(60)
            assert not writer.thread.is_alive()
            client.close()
            acknowledged |= writer.acknowledged
        server = world.start("--only", "grpc")
        with world.client(server, "operator") as operator:
            kept = {rollout.rollout_id for rollout in operator.rollouts()}
            lost = set(acknowledged.values()) - kept
            assert not lost, f"kill {number + 1}: acknowledged and lost: {lost}"
            for writer in writers:  # the one that was under way happened or not; sent again it has happened once
                request_id = writer.begun[-1]
                again = operator.create_rollout("app", FEATURE, "1.0.0", request_id=request_id)
                assert acknowledged.setdefault(request_id, again.rollout_id) == again.rollout_id
            kept = {rollout.rollout_id for rollout in operator.rollouts()}
            assert kept == set(acknowledged.values()), f"kill {number + 1}: done twice or from nowhere"
    assert server.stop() == 0
    audited = [entry.subject for entry in list_local_audit(world.data_dir) if entry.action == "create rollout"]
    assert sorted(audited) == sorted(acknowledged.values())


@pytest.mark.thorough
@pytest.mark.timeout(3600)
def test_what_was_acknowledged_survives_200_kills(tmp_path: Path) -> None:
    """Every acknowledged write is there after each, audited once."""
    kill_again_and_again(tmp_path, 200)
