"""How do rollouts look on the wire?"""

from alcove.api.rollout.v1 import rollout_pb2 as pb
from alcove.platform.core.records import RolloutRecord, RolloutState

__all__ = ["rollout_message"]

_STATES = {
    RolloutState.DRAFT: pb.ROLLOUT_STATE_DRAFT,
    RolloutState.RUNNING: pb.ROLLOUT_STATE_RUNNING,
    RolloutState.PAUSED: pb.ROLLOUT_STATE_PAUSED,
    RolloutState.COMPLETED: pb.ROLLOUT_STATE_COMPLETED,
    RolloutState.ROLLED_BACK: pb.ROLLOUT_STATE_ROLLED_BACK,
    RolloutState.HALTED: pb.ROLLOUT_STATE_HALTED,
}


def rollout_message(record: RolloutRecord) -> pb.Rollout:
    """Return the message of a rollout."""
    return pb.Rollout(
        rollout_id=record.rollout_id,
        app=record.app,
        feature=record.feature,
        version=record.version,
        state=_STATES[record.state],
        share_permyriad=record.share_permyriad,
        created_at_s=record.created_at_s,
        updated_at_s=record.updated_at_s,
        policy_serial=record.policy_serial,
    )
