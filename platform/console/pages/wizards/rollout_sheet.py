"""Defines the fields of a rollout that is being written, and reads its plan."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from alcove.platform.client import Metric, Plan, StagePlan
from alcove.platform.console.pages.wizards.audiences import AUDIENCE, read_audience
from alcove.platform.console.pages.wizards.guardrails import (
    guardrail_inputs,
    guardrail_section,
    latency_edges,
    read_guardrails,
)
from alcove.platform.console.sheets import Input, Section, Sheet
from alcove.platform.domain import limits

__all__ = ["HOUR_S", "MECHANISMS", "RolloutSheet", "count_rows"]

HOUR_S: Final = 3600
DAY_S: Final = 86_400
_STAGES: Final = (("1", "1"), ("10", "1"), ("50", "1"), ("100", ""))  # share in percent, days: what is usual
_DAYS_MAX: Final = limits.STAGE_MAX_S // DAY_S
MECHANISMS: Final = (
    ("", "The server's: two aggregators where it has them"),
    ("randomized_response", "Randomized response: each device changes its report by chance"),
    ("prio3", "Prio3: two aggregators add up reports that neither can read"),
)
_HARM: Final = (
    ("", "The server's: halt, the version is forbidden"),
    ("pause", "Pause"),
    ("roll_back", "Roll back"),
    ("halt", "Halt"),
)
_TIMEOUT: Final = (("", "Hold the share; a person decides"), ("pause", "Pause"), ("roll_back", "Roll back"))
_BEHAVIOR: Final = (
    Input("usual.crash_fallback", "Crashes now", "", "number", unit="%", default="0.1", high=100),
    Input("usual.error", "Errors now", "", "number", unit="%", default="0.2", high=100),
    Input("usual.refused", "Refused now", "", "number", unit="%", default="20", high=100),
    Input("usual.feedback", "Answers with feedback", "", "number", unit="%", default="100", high=100),
    Input("usual.latency_ms", "Median latency now", "", "number", unit="ms", default="20", low=0.01, high=600_000),
)


@dataclass(frozen=True)
class RolloutSheet:
    """A rollout that is being written.

    Attributes:
        sheet: fields and what was written.
        sections: of the form.
        stages: rows of stages that the form has.
    """

    sheet: Sheet
    sections: tuple[Section, ...]
    stages: int

    @classmethod
    def make(
        cls,
        given: Mapping[str, str] | None,
        *,
        versions: Sequence[str],
        metrics: Sequence[Metric],
        apps: Sequence[str],
        asked: Mapping[str, str],
    ) -> "RolloutSheet":
        """Return the form.

        Args:
            given: what was written; None: nothing yet.
            versions: that may be chosen, newest first.
            metrics: of the feature's team.
            apps: names that are known.
            asked: what the address asks for at first: "app" and "version".
        """
        stages = min(count_rows(given, "stage", len(_STAGES)), limits.STAGES_MAX)
        inputs = [
            Input(
                "app",
                "App",
                "Name of the app whose devices get the version.",
                suggestions=apps,
                default=asked.get("app") or (apps[0] if len(apps) == 1 else ""),
                is_required=True,
            ),
            Input(
                "version",
                "Version",
                "Released versions of the feature, newest first.",
                "choice",
                options=[(version, version) for version in versions],
                default=asked.get("version") or (versions[0] if versions else ""),
                is_required=True,
            ),
            AUDIENCE,
            Input(
                "expected_devices",
                "Devices of the app",
                "About how many have it and meet the audience: the forecast says days by it.",
                "number",
                high=limits.EXPECTED_DEVICES_MAX,
            ),
            *(field for number in range(1, stages + 1) for field in _stage_inputs(number)),
            *guardrail_inputs(metrics, is_prefilled=True),
            *_ADVANCED,
            *_BEHAVIOR,
        ]
        sections = (
            Section("what", "1. What is rolled out", "", (("app", "version", "expected_devices"),)),
            Section(
                "who",
                "2. On which devices",
                "A device knows itself what is true of it, and tells nobody.",
                (("audience",),),
                part="audience",
            ),
            Section(
                "stages",
                "3. In which stages",
                "Each stage gives the version to a share of the devices, and as many keep the old one to compare with. "
                "A stage lasts at least its days. Leave a share empty to leave the stage out.",
                tuple(tuple(field.name for field in _stage_inputs(number)) for number in range(1, stages + 1)),
                more=("add-stage", "Add a stage") if stages < limits.STAGES_MAX else None,
            ),
            guardrail_section(
                metrics,
                4,
                "By how much more than on the devices that keep the old version. A field that is empty is not watched. "
                "Harm stops the rollout by itself; a stage that is not found safe waits.",
            ),
            Section(
                "actions",
                "5. What happens by itself",
                "Reports that nobody attests can pause a rollout, and do no more: a person decides.",
                (("on_harm",), ("on_timeout", "timeout_days"), ("auto_advance_reason",)),
            ),
            Section(
                "privacy",
                "6. Privacy and time",
                "The usual values fit most rollouts.",
                (("mechanism",), ("epsilon", "window_h"), ("horizon_windows", "is_open_ended")),
                is_folded=True,
            ),
            Section(
                "more",
                "7. Values, signature, and what is usual now",
                "Parameters of the version, an exception for another signature, and what the forecast assumes of the "
                "version that devices run now.",
                (
                    ("values",),
                    ("signature_override_reason",),
                    tuple(field.name for field in _BEHAVIOR[:3]),
                    tuple(field.name for field in _BEHAVIOR[3:]),
                ),
                is_folded=True,
                part="parameters",
            ),
        )
        return cls(Sheet(inputs, given), sections, stages)

    def plan(self) -> Plan:
        """Return the plan that was written; what is wrong is noted in the sheet."""
        sheet = self.sheet
        watched = read_guardrails(sheet)
        stages = [stage for number in range(1, self.stages + 1) if (stage := self._stage(number)) is not None]
        if watched.is_anything and not stages:
            sheet.expect("stage.1.share", "a share in at least one stage, since something is watched")
        if self.audience().problem:
            sheet.note("audience", f"Audience: {self.audience().problem}")
        window_h, timeout_days = sheet.number("window_h"), sheet.number("timeout_days")
        return Plan.model_validate(
            {
                "stages": stages,
                "guardrails": watched.guardrails,
                "own_guardrails": watched.own,
                "latency_edges_ms": latency_edges(sheet),
                "on_harm": sheet.text("on_harm") or "unspecified",
                "on_timeout": sheet.text("on_timeout") or "unspecified",
                "timeout_s": round((timeout_days or 0) * DAY_S),
                "auto_advance_reason": sheet.text("auto_advance_reason"),
                "mechanism": sheet.text("mechanism") or "unspecified",
                "epsilon": _epsilon(sheet),
                "window_s": round((window_h or 0) * HOUR_S),
                "expected_devices": sheet.whole("expected_devices") or 0,
                "horizon_windows": sheet.whole("horizon_windows") or 0,
                "is_open_ended": sheet.is_ticked("is_open_ended"),
                "signature_override_reason": sheet.text("signature_override_reason"),
            }
        )

    def audience(self) -> Any:
        """Return what the audience says."""
        return read_audience(self.sheet.values["audience"])

    def behavior(self) -> dict[str, float]:
        """Return what is usual on devices now, shares as parts of 1."""
        found: dict[str, float] = {}
        for field in _BEHAVIOR:
            name = field.name.removeprefix("usual.")
            value = self.sheet.number(field.name) if name == "latency_ms" else self.sheet.part(field.name)
            if value is not None:
                found[name] = value
        return found

    def _stage(self, number: int) -> StagePlan | None:
        sheet = self.sheet
        share = sheet.basis_points(f"stage.{number}.share")
        days, cohort = sheet.number(f"stage.{number}.days"), sheet.whole(f"stage.{number}.devices")
        if share is None:
            return None
        return StagePlan(share_basis_points=share, minimum_s=round((days or 0) * DAY_S), minimum_cohort=cohort or 0)


def count_rows(given: Mapping[str, str] | None, kind: str, usual: int) -> int:
    """Return how many rows of a kind a form has: those that were sent, and one more where the button says so."""
    if given is None:
        return usual
    numbers = [int(name.split(".")[1]) for name in given if name.startswith(f"{kind}.") and _is_row(name)]
    return max(numbers, default=usual) + (given.get("step") == f"add-{kind}")


def _is_row(name: str) -> bool:
    number = name.split(".")[1]
    return number.isascii() and number.isdigit() and len(number) <= 2


def _epsilon(sheet: Sheet) -> str:
    """Return ε as it was written, a decimal number: it is exact."""
    return "" if sheet.number("epsilon") is None else sheet.text("epsilon").replace(",", ".")


def _stage_inputs(number: int) -> list[Input]:
    share, days = _STAGES[number - 1] if number <= len(_STAGES) else ("", "")
    name = f"stage.{number}"
    return [
        Input(f"{name}.share", f"Stage {number}", "", "number", unit="% of the devices", default=share, high=100),
        Input(f"{name}.days", "At least", "", "number", unit="days", default=days, high=_DAYS_MAX),
        Input(
            f"{name}.devices",
            "Devices in each group",
            "",
            "number",
            unit="at least; empty: the server's",
            low=limits.MINIMUM_COHORT[0],
            high=limits.MINIMUM_COHORT[1],
        ),
    ]


_ADVANCED: Final = (
    Input("on_harm", "When something gets worse than its margin", "", "choice", options=_HARM),
    Input("on_timeout", "When a stage is not found safe in time", "", "choice", options=_TIMEOUT),
    Input("timeout_days", "… after", "Empty: never.", "number", unit="days", high=_DAYS_MAX),
    Input(
        "auto_advance_reason",
        "Why it may advance by itself",
        "Empty: a person advances. Else a stage that was found safe is followed by the next one; the reason is kept in "
        "the audit log.",
        length=limits.REASON_LENGTH,
    ),
    Input("mechanism", "How reports become sums", "", "choice", options=MECHANISMS),
    Input(
        "epsilon",
        "Privacy loss ε",
        "Of one report, or with Prio3 of one window's sums. Empty: 2, with Prio3 1.",
        "number",
        low=0.01,
        high=8,
    ),
    Input("window_h", "Window", "A device reports once in it. Empty: 24.", "number", unit="hours", low=1, high=24 * 90),
    Input(
        "horizon_windows",
        "Horizon",
        "Windows at whose ends a stage may be found safe. Empty: as many as a device's budget of 30 days pays for.",
        "number",
        unit="windows",
        high=24 * 90,
    ),
    Input("is_open_ended", "No horizon", "A stage may be found safe at any time; it takes twice the devices.", "tick"),
    Input(
        "values",
        "Values of parameters",
        "One NAME=VALUE on each line, of parameters that the version declares.",
        "words",
        length=4000,
    ),
    Input(
        "signature_override_reason",
        "Why it may take or give something else",
        "Only for a version with another signature than the one that devices run, which breaks apps that were built "
        "for that one. The reason is kept in the audit log.",
        length=limits.REASON_LENGTH,
    ),
)
