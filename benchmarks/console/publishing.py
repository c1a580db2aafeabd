"""Has a seeded server sign a policy: the rows of the seed were never published, so its apps have none."""

from alcove.platform.testing import Served

from benchmarks.console.seeding import Seeded

__all__ = ["publish_policy"]


def publish_policy(seeded: Seeded, served: Served) -> None:
    """Let the server sign a policy of the app whose pages are shown: a rollout of it is paused and goes on."""
    with seeded.world.client(served, "operator") as operator:
        rollout = seeded.things["rollout"]
        operator.pause_rollout(rollout, "the release notes are late")
        operator.resume_rollout(rollout, "the release notes are there")
