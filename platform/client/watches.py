"""Watches rollouts and experiments without a thread for each: for programs that show changes to many people.

`PlatformClient.watch_rollout` does the same for a program that waits for one.
"""

from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
from alcove.api.experiment.v1 import experiment_pb2 as experiment_pb
from alcove.api.experiment.v1.experiment_pb2_grpc import ExperimentServiceStub
from alcove.api.rollout.v1 import rollout_pb2 as rollout_pb
from alcove.api.rollout.v1.rollout_pb2_grpc import RolloutServiceStub
from alcove.platform.client.errors import error_of

__all__ = ["Watches"]


class Watches:
    """Says when something changes.  An iterator that is closed ends its call.

    Args:
        channel: the connection; stays the caller's.
        token: API token or session ("alc_…").
    """

    def __init__(self, channel: grpc.aio.Channel, token: str) -> None:
        self._metadata = (("authorization", f"Bearer {token}"),)
        # The stubs of grpcio know no asynchronous channels.
        self._rollouts: Any = RolloutServiceStub(channel)
        self._experiments: Any = ExperimentServiceStub(channel)

    def rollout(self, rollout_id: str) -> AsyncIterator[str]:
        """Yield a rollout's etag now and at each change, an analysis too, until it has ended.

        Raises:
            ClientError: the call failed; DeadlineError after an hour: watch again.
        """
        request = rollout_pb.WatchRolloutRequest(rollout_id=rollout_id)
        return self._etags(self._rollouts.WatchRollout(request, metadata=self._metadata), "rollout")

    def experiment(self, experiment_id: str) -> AsyncIterator[str]:
        """Yield an experiment's etag now, at each change and, every few seconds, after new reports, until it stops.

        Raises:
            ClientError: as `rollout`.
        """
        request = experiment_pb.WatchExperimentRequest(experiment_id=experiment_id, with_reports=True)
        return self._etags(self._experiments.WatchExperiment(request, metadata=self._metadata), "experiment")

    async def _etags(self, call: Any, name: str) -> AsyncIterator[str]:
        try:
            async for answer in call:
                yield getattr(answer, name).etag
        except grpc.RpcError as failure:
            raise error_of(failure) from None
        finally:
            call.cancel()
