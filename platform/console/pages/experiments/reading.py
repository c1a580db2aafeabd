"""Reads an experiment with what its reports say and what was done to it."""

import time
from dataclasses import asdict, dataclass
from typing import Any, Final

from alcove.platform.client import (
    AuditLine,
    Experiment,
    ExperimentReport,
    FailedPreconditionError,
    NotFoundError,
    PlatformClient,
)
from alcove.platform.client.preferences import preference_sentences
from alcove.platform.console.pages.experiments.later_looks import LaterLook, list_later_looks
from alcove.platform.console.pages.experiments.sections import make_sections
from alcove.platform.console.pages.experiments.words import (
    analysis_words,
    decision_sentence,
    mechanism_words,
    metric_name,
    name_arms,
    noise_sentence,
    ratio_sentence,
)

__all__ = ["Reading", "context_of", "read"]

HISTORY_SHOWN: Final = 50


@dataclass(frozen=True)
class Reading:
    """An experiment as a page shows it.

    Attributes:
        experiment: as it is now.
        team: that owns its feature.
        report: what its reports say; None: it has not started, or they cannot be read.
        obstacle: why they cannot be read; "": they can, or there are none.
        history: what was done to it, the newest first.
        read_at_s: when it was read, seconds since 1970-01-01 UTC.
        later: looks that are planned after those that were made.
    """

    experiment: Experiment
    team: str
    report: ExperimentReport | None
    obstacle: str
    history: list[AuditLine]
    read_at_s: int
    later: tuple[LaterLook, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return it as programs read it."""
        results = None if self.report is None else self.report.results.model_dump(mode="json")
        return {
            "experiment": self.experiment.model_dump(mode="json"),
            "team": self.team,
            "results": results,
            "decision": "" if self.report is None else decision_sentence(self.report),
            "obstacle": self.obstacle,
            "later_looks": [asdict(look) for look in self.later],
            "history": [line.model_dump(mode="json") for line in self.history],
        }


def read(client: PlatformClient, experiment_id: str, *, with_cells: bool = False) -> Reading:
    """Return an experiment with everything that a page shows of it; `with_cells` the counts of its reports' cells.

    Raises:
        NotFoundError: there is none of this id.
        ClientError: a call failed.
    """
    experiment = client.experiment(experiment_id)
    report, obstacle = None, ""
    if experiment.state != "draft":
        try:
            report = client.results(experiment_id, with_cells=with_cells)
            experiment = report.experiment
        except FailedPreconditionError as error:  # statistics refuse the reports; the rest is shown
            obstacle = error.message
    history = client.audit(about=experiment_id, limit=HISTORY_SHOWN)
    team, later = _team_of(client, experiment), list_later_looks(experiment)
    return Reading(experiment, team, report, obstacle, history, int(time.time()), later)


def context_of(reading: Reading) -> dict[str, Any]:
    """Return what the templates of page and report have in common."""
    experiment, report = reading.experiment, reading.report
    context: dict[str, Any] = {
        "experiment": experiment,
        "team": reading.team,
        "report": report,
        "obstacle": reading.obstacle,
        "read_at_s": reading.read_at_s,
        "primary": metric_name(experiment.primary),
        "mechanism": mechanism_words(experiment),
        "notes": analysis_words(experiment),
        "results": None,
    }
    if report is not None:
        view = report.results.allocation
        context |= {
            "results": report.results,
            "decision": decision_sentence(report),
            "noise": noise_sentence(report),
            "preference": preference_sentences(report),
            "ratio_says": ratio_sentence(experiment, report.results.sample_ratio),
            "held": "" if view is None else name_arms(view.held, experiment.arms),
            "sections": make_sections(report, reading.read_at_s, reading.later),
        }
    return context


def _team_of(client: PlatformClient, experiment: Experiment) -> str:
    """Return the team that owns the feature, as its control's version says."""
    try:
        return client.version(experiment.feature, experiment.arms[0].version)[0].team
    except NotFoundError:
        return ""
