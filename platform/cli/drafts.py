"""`alcove rollout delete` and `alcove experiment delete`: delete what no device ever knew of."""

from typing import TYPE_CHECKING, Annotated

import typer
from alcove.platform.cli.confirmation import Yes, confirm
from alcove.platform.cli.connection import CallOptions
from alcove.platform.cli.output import print_json, say

if TYPE_CHECKING:
    from alcove.platform.client import Experiment, Rollout

__all__ = ["delete_experiment", "delete_rollout"]

RolloutId = Annotated[str, typer.Argument(help="Id of the draft (ro-…).")]
ExperimentId = Annotated[str, typer.Argument(help="Id of the draft (ex-…).")]
Etag = Annotated[str, typer.Option(help="The draft's etag as you know it; refused if it has changed since.")]


def delete_rollout(*, rollout_id: RolloutId, etag: Etag = "", yes: Yes = False, call: CallOptions) -> None:
    """Delete a draft; a rollout that has begun is part of the app's history and stays."""
    with call.connect() as client:
        if not yes:
            known = client.rollout(rollout_id)
            confirm(
                f"{rollout_id}: {known.feature} {known.version} in app {known.app}, {known.state.replace('_', ' ')}",
                f"Delete {rollout_id}",
                yes=yes,
            )
        _show(client.delete_rollout(rollout_id, etag=etag), rollout_id, as_json=call.as_json)


def delete_experiment(*, experiment_id: ExperimentId, etag: Etag = "", yes: Yes = False, call: CallOptions) -> None:
    """Delete a draft; an experiment that has run is part of the app's history and stays."""
    with call.connect() as client:
        if not yes:
            known = client.experiment(experiment_id)
            arms = ", ".join(f"{arm.name} {arm.version}" for arm in known.arms)
            confirm(
                f"{experiment_id}: {known.feature} in app {known.app} ({arms}), {known.state}",
                f"Delete {experiment_id}",
                yes=yes,
            )
        _show(client.delete_experiment(experiment_id, etag=etag), experiment_id, as_json=call.as_json)


def _show(draft: "Rollout | Experiment", draft_id: str, *, as_json: bool) -> None:
    if as_json:
        print_json(draft)
    else:
        say(f"draft {draft_id} is deleted")
