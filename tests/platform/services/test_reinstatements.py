"""A version that its team has lifted leaves the server's next halt, and may roll out again."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from alcove.platform.client.errors import FailedPreconditionError
from alcove.platform.testing import Served, ServerWorld
from alcove.registry.reinstatements import Reinstatement
from alcove.registry.repository import Repository
from alcove.registry.rotation import Draft
from alcove.runtime.clock import SYSTEM_CLOCK

FEATURE = "text_00"
WHY = "the crash was another library's"


@contextmanager
def running(world: ServerWorld) -> Iterator[Served]:
    """A server for as long as the block runs."""
    served = world.start("--only", "grpc")
    try:
        yield served
    finally:
        assert served.stop() == 0


def test_lifted_version_leaves_the_halt_at_the_next_start_and_may_roll_out(tmp_path: Path) -> None:
    """Halted: no rollout; lifted by the team's key: the next halt document gives it back; halted again: taken again."""
    world = ServerWorld(tmp_path)
    with running(world) as served:
        with world.client(served, "team:text") as team, world.client(served, "operator") as operator:
            for version in ("1.0.0", "2.0.0"):
                world.publish(team, FEATURE, version)
            for version in ("1.0.0", "2.0.0"):
                halted = operator.create_rollout("messenger", FEATURE, version)
                operator.halt_rollout(halted.rollout_id, "it crashes")
            with pytest.raises(FailedPreconditionError, match="halted"):
                operator.create_rollout("messenger", FEATURE, "2.0.0")
        halt = world.tree.halt("messenger")
        assert halt is not None
        ref = world.tree.manifest(FEATURE, "2.0.0").sha256
        draft = Draft(world.tree.state(), now_s=SYSTEM_CLOCK.now_s())
        draft.reinstate(
            "text", Reinstatement(app="messenger", feature=FEATURE, manifest_sha256=ref, serial=halt.serial)
        )
        change, _ = draft.draft().sign(world.keys.teams["text"])
        Repository(world.data_dir / "tree").accept_request(change, world.keys.online)  # while the server runs

    with running(world) as served, world.client(served, "operator") as operator:
        after = world.tree.halt("messenger")
        assert after is not None
        assert (after.serial, after.digests) == (halt.serial + 1, halt.digests - {ref})
        again = operator.create_rollout("messenger", FEATURE, "2.0.0")
        assert operator.advance_rollout(again.rollout_id, 10_000, override_reason=WHY).state == "completed"
        operator.halt_rollout(again.rollout_id, "it does crash")
    with running(world):
        last = world.tree.halt("messenger")
        assert last is not None
        assert (last.serial, last.digests) == (halt.serial + 2, halt.digests)
    assert world.tree.check().is_sound
