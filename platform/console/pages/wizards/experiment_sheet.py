"""Defines the fields of an experiment that is being written, and reads it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from alcove.platform.client import Arm, Bandit, ExperimentPlan, Layer, Metric, Segment
from alcove.platform.console.pages.wizards.audiences import AUDIENCE, Reading, read_audience
from alcove.platform.console.pages.wizards.guardrails import (
    guardrail_inputs,
    guardrail_section,
    latency_edges,
    read_guardrails,
)
from alcove.platform.console.pages.wizards.primary_metrics import (
    primary_inputs,
    read_primary,
    read_secondary,
    secondary_inputs,
    unit_of,
)
from alcove.platform.console.pages.wizards.rollout_sheet import HOUR_S, MECHANISMS, count_rows
from alcove.platform.console.sheets import Input, Section, Sheet
from alcove.platform.domain import limits
from alcove.registry.limits import ARMS_MAX

__all__ = ["ExperimentSheet"]

_ARMS: Final = (("control", "50"), ("treatment", "50"))
_BUCKETS: Final = 10_000


@dataclass(frozen=True)
class ExperimentSheet:
    """An experiment that is being written.

    Attributes:
        sheet: fields and what was written.
        sections: of the form.
        arms: rows of arms that the form has.
    """

    sheet: Sheet
    sections: tuple[Section, ...]
    arms: int

    @classmethod
    def make(
        cls,
        given: Mapping[str, str] | None,
        *,
        versions: Sequence[str],
        metrics: Sequence[Metric],
        layers: Sequence[Layer],
        asked: Mapping[str, str],
    ) -> "ExperimentSheet":
        """Return the form.

        Args:
            given: what was written; None: nothing yet.
            versions: that may be chosen, newest first.
            metrics: of the feature's team.
            layers: of the app.
            asked: what the address asks for at first, by the names of fields.
        """
        arms = min(max(count_rows(given, "arm", len(_ARMS)), len(_ARMS)), ARMS_MAX)
        of_arms = [field for number in range(1, arms + 1) for field in _arm_inputs(number, versions)]
        secondary = secondary_inputs()
        inputs = [
            *of_arms,
            Input(
                "layer",
                "Layer",
                "Experiments of one layer exclude each other: no device is in two of them.",
                "choice",
                options=[
                    ("", "None: all devices, whatever layers they are in"),
                    *((one.name, one.name) for one in layers),
                ],
            ),
            Input("layer.first", "First bucket", "", "number", default="0", high=_BUCKETS - 1),
            Input("layer.count", "Buckets", "", "number", unit="of 10 000", default="10000", low=1, high=_BUCKETS),
            AUDIENCE,
            *primary_inputs(metrics),
            Input("mde", "Smallest difference to find", _MDE, "number", low=0.0, high=10**6, default="2"),
            Input("base_rate", "Rate now", "Of the control; empty: 50, the worst.", "number", unit="%", high=99.99),
            Input(
                "expected_devices",
                "Devices that take part",
                "In all arms together: the forecast says days by it.",
                "number",
                high=limits.EXPECTED_DEVICES_MAX,
            ),
            *secondary,
            *guardrail_inputs(metrics, is_prefilled=False),
            *_ADVANCED,
        ]
        sheet = Sheet(
            [_with_default(field, asked) for field in inputs],
            given,
        )
        return cls(sheet, _sections(arms, metrics, layers, secondary), arms)

    def read(self) -> dict[str, Any]:
        """Return the arguments of `create_experiment` but app and feature; what is wrong is noted in the sheet."""
        sheet = self.sheet
        reading, watched, primary = self.audience(), read_guardrails(sheet), read_primary(sheet)
        if reading.problem:
            sheet.note("audience", f"Audience: {reading.problem}")
        edges = latency_edges(sheet)
        if primary.kind.startswith("latency") and not edges:
            sheet.expect("latency_edges_ms", "at least one edge, since latency decides")
        window_h = sheet.number("window_h")
        return {
            "arms": [arm for number in range(1, self.arms + 1) if (arm := self._arm(number)) is not None],
            "epsilon": "" if sheet.number("epsilon") is None else sheet.text("epsilon").replace(",", "."),
            "latency_edges_ms": edges,
            "window_s": round((window_h or 0) * HOUR_S),
            "minimum_cohort": sheet.whole("minimum_cohort") or 0,
            "primary": primary,
            "secondary": read_secondary(sheet),
            "guardrails": watched.guardrails,
            "own_guardrails": watched.own,
            "plan": self._plan(unit_of(primary).scale),
            "audience": sheet.values["audience"].strip(),
            "segment": self.segment(),
            "pre_edges": sheet.numbers("pre_edges"),
            "mechanism": sheet.text("mechanism") or "unspecified",
            "bandit": self._bandit(),
            "dimension": sheet.text("dimension"),
        }

    def audience(self) -> Reading:
        """Return what the audience says."""
        return read_audience(self.sheet.values["audience"])

    def segment(self) -> Segment | None:
        """Return the part of a layer that is asked for; None: all devices."""
        layer = self.sheet.text("layer")
        first, count = self.sheet.whole("layer.first") or 0, self.sheet.whole("layer.count")
        if not layer or count is None:
            return None
        if first + count > _BUCKETS:
            self.sheet.expect("layer.count", f"at most {_BUCKETS - first}, the buckets from {first} on")
            return None
        return Segment(layer=layer, first=first, count=count)

    def _plan(self, scale: float) -> ExperimentPlan:
        sheet = self.sheet
        return ExperimentPlan(
            mde=(sheet.number("mde") or 0.0) / scale,
            base_rate=sheet.part("base_rate") or 0.0,
            expected_devices=sheet.whole("expected_devices") or 0,
            interim_analyses=sheet.whole("interim_analyses") or 0,
            denominator_share=sheet.part("denominator_share") or 0.0,
        )

    def _arm(self, number: int) -> Arm | None:
        sheet, name = self.sheet, f"arm.{number}"
        title, version = sheet.text(f"{name}.name"), sheet.text(f"{name}.version")
        share, values = sheet.basis_points(f"{name}.share"), sheet.pairs(f"{name}.values")
        if not title and share is None:
            return None
        if not title or share is None:
            sheet.expect(f"{name}.share" if title else f"{name}.name", "name and share of the arm, or neither")
            return None
        return Arm(name=title, version=version, share_basis_points=share, values=values)

    def _bandit(self) -> Bandit | None:
        sheet = self.sheet
        least, step = sheet.basis_points("bandit.least"), sheet.basis_points("bandit.step")
        if not sheet.is_ticked("bandit"):
            return None
        return Bandit(min_share_basis_points=least or 0, max_step_basis_points=step or 0)


def _with_default(field: Input, asked: Mapping[str, str]) -> Input:
    given = asked.get(field.name)
    return field if given is None else replace(field, default=given)


def _arm_inputs(number: int, versions: Sequence[str]) -> list[Input]:
    title, share = _ARMS[number - 1] if number <= len(_ARMS) else ("", "")
    name = f"arm.{number}"
    usual = versions[min(len(versions) - 1, 1 if number == 1 else 0)] if versions else ""
    return [
        Input(f"{name}.name", "Control" if number == 1 else f"Arm {number}", "", default=title, length=64),
        Input(f"{name}.version", "Version", "", "choice", options=[(one, one) for one in versions], default=usual),
        Input(f"{name}.share", "Share", "", "number", unit="% of the devices", default=share, high=100),
        Input(f"{name}.values", "Values", "", length=1000, unit="NAME=VALUE, …"),
    ]


def _sections(
    arms: int, metrics: Sequence[Metric], layers: Sequence[Layer], secondary: Sequence[Input]
) -> tuple[Section, ...]:
    return (
        Section(
            "arms",
            "1. What is compared",
            "The first arm is the control: usually the version that devices run now. Arms may also differ by values of "
            "parameters alone.",
            tuple(tuple(field.name for field in _arm_inputs(number, ())) for number in range(1, arms + 1)),
            more=("add-arm", "Add an arm") if arms < ARMS_MAX else None,
            part="parameters",
        ),
        Section(
            "who",
            "2. On which devices",
            "A device knows itself what is true of it, and tells nobody.",
            (("audience",),),
            part="audience",
        ),
        Section(
            "layer",
            "3. Beside which other experiments",
            "" if layers else "The app has no layer: this experiment takes part in all devices.",
            (("layer",), ("layer.first", "layer.count")) if layers else (),
            part="layer",
        ),
        Section(
            "decides",
            "4. What decides",
            "The smaller the difference to find, the more devices and days it takes.",
            (
                ("primary",),
                ("mde", "base_rate", "expected_devices"),
            ),
            rare=("Of latency", (("primary.quantile", "primary.edge_ms"),)),
        ),
        guardrail_section(
            metrics,
            5,
            "By how much more than the control's. A field that is empty is not watched. An arm that is worse than its "
            "margin does not win.",
        ),
        Section(
            "beside",
            "6. What is shown beside",
            "These are compared, too, and decide nothing. Errors and crashes are counted where a guardrail or what "
            "decides reads them.",
            (tuple(field.name for field in secondary),),
        ),
        Section(
            "privacy",
            "7. Privacy and time",
            "The usual values fit most experiments.",
            (("mechanism",), ("epsilon", "window_h", "minimum_cohort"), ("interim_analyses", "denominator_share")),
            is_folded=True,
        ),
        Section(
            "advanced",
            "8. Earlier answers, values of an attribute, moving shares",
            "CUPED, a dimension, and a bandit.",
            (("pre_edges", "dimension"), ("bandit", "bandit.least", "bandit.step")),
            is_folded=True,
        ),
    )


_MDE: Final = (
    "In percentage points of a share, ms of latency, or the unit of a metric of your own. Empty: nothing is planned."
)
_ADVANCED: Final = (
    Input("mechanism", "How reports become sums", "", "choice", options=MECHANISMS),
    Input(
        "epsilon",
        "Privacy loss ε",
        "Of one report, or with Prio3 of one window's sums. Empty: 2, with Prio3 1.",
        "number",
        low=0.01,
        high=6,
    ),
    Input("window_h", "Window", "A device reports once in it. Empty: 24.", "number", unit="hours", low=1, high=24 * 90),
    Input(
        "minimum_cohort",
        "Devices in each arm",
        "Fewer name no winner. Empty: the server's.",
        "number",
        low=limits.MINIMUM_COHORT[0],
        high=limits.MINIMUM_COHORT[1],
    ),
    Input(
        "interim_analyses",
        "Interim analyses",
        "How many decide. Empty: any number, which takes more devices.",
        "number",
        low=limits.INTERIM_ANALYSES[0],
        high=limits.INTERIM_ANALYSES[1],
    ),
    Input(
        "denominator_share",
        "Part of the reports in the ratio",
        "Only where a ratio leaves out some outcome that is counted.",
        "number",
        unit="%",
        high=100,
    ),
    Input(
        "pre_edges",
        "Earlier answers (CUPED)",
        "Edges of the accepted share before the experiment, such as 0.5, 0.8. Only where the accepted share decides.",
        length=200,
    ),
    Input(
        "dimension",
        "Tell reports apart by",
        "An attribute and up to three values, such as os=android,ios+ipados. Each value needs devices of its own.",
        length=400,
    ),
    Input("bandit", "Let the server move the shares", "Towards the arm that seems best; no winner is named.", "tick"),
    Input("bandit.least", "Least share of an arm", "Empty: 10.", "number", unit="%", low=1, high=50),
    Input("bandit.step", "Most change in a day", "Empty: 10.", "number", unit="%", low=1, high=50),
)
