"""Defines what a person can do with an experiment.  Each form carries the etag of what its reader saw."""

from typing import Any, Final

from alcove.platform.client import Experiment, PlatformClient
from alcove.platform.console.actions import Action, Form

__all__ = ["EXPERIMENT", "actions_of"]

EXPERIMENT: Final = "/alcove.api.experiment.v1.ExperimentService/"


def actions_of(experiment_id: str, seen: Experiment | None = None) -> list[Action]:
    """Return the actions of an experiment.

    Args:
        experiment_id: of the experiment.
        seen: as the page shows it: only what its state allows, bound to its etag; None: all.
    """
    hidden = {"etag": "", "seen": ""} if seen is None else {"etag": seen.etag, "seen": seen.state}

    def start(client: PlatformClient, form: Form) -> Any:
        return client.start_experiment(experiment_id, etag=form.values["etag"], request_id=form.request_id)

    def stop(client: PlatformClient, form: Form) -> Any:
        return client.stop_experiment(
            experiment_id, reason=form.reason, etag=form.values["etag"], request_id=form.request_id
        )

    def delete(client: PlatformClient, form: Form) -> Any:
        return client.delete_experiment(experiment_id, etag=form.values["etag"], request_id=form.request_id)

    actions = {
        "draft": [
            Action(
                "start",
                "Start",
                EXPERIMENT + "StartExperiment",
                "Puts the arms on the devices of the audience at their next check-in, and opens the collection.",
                "The experiment runs: devices get their arms at their next check-in.",
                start,
                needs_reason=False,
                hidden=hidden,
            ),
            Action(
                "delete",
                "Delete the draft",
                EXPERIMENT + "DeleteExperiment",
                "Deletes the draft. No device ever knew of it; the audit log keeps what was done.",
                "The draft was deleted.",
                delete,
                needs_reason=False,
                confirmation=experiment_id,
                is_grave=True,
                hidden=hidden,
            ),
        ],
        "running": [
            Action(
                "stop",
                "Stop",
                EXPERIMENT + "StopExperiment",
                "Takes the arms from devices, closes the collection and keeps the decision that holds now. It does not "
                "start again.",
                "The experiment has stopped; its decision is kept.",
                stop,
                is_grave=True,
                hidden=hidden,
            )
        ],
    }
    if seen is None:
        return [action for of_state in actions.values() for action in of_state]
    return actions.get(seen.state, [])
