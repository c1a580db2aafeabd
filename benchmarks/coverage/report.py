"""Formats what was found as a table, a page and JSON.

passed   every sample that applies ran and agrees with eager
partly   some ran, the others are refused at export
refused  none ran
wrong    a result differs, or something else than `ExportError` was raised
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.coverage.case import ATOL, NO_ELEMENTS, RTOL, TOLERANCES, Outcome, Status
from benchmarks.coverage.differences import DIFFERENCES
from benchmarks.coverage.names import EXCLUDED, core_overloads, counted_names

STATUSES: Final = ("passed", "partly", "refused", "wrong")
NOT_REACHED: Final = "no sample that ran had this operator in its traced graph"
NO_SAMPLE: Final = "no sample applies"
OUT: Final = "out"  # overloads that write into a given tensor: a traced graph has none


@dataclass(frozen=True)
class Row:
    """One operator.

    Attributes:
        name: such as "add".
        overloads: its core overloads.
        passed_overloads: those of which a direct call passed.
        status: one of `STATUSES`.
        counts: number of samples by status.
        reasons: distinct reasons of samples that were wrong or refused, the most frequent first.
        examples: calls that were wrong.
    """

    name: str
    overloads: tuple[str, ...]
    passed_overloads: tuple[str, ...]
    status: str
    counts: Mapping[Status, int]
    reasons: tuple[str, ...]
    examples: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """The reasons in one line."""
        return "; ".join(self.reasons)

    @property
    def samples(self) -> str:
        """Passed of all that apply, such as "12/14"."""
        applied = sum(self.counts.get(status, 0) for status in (Status.PASSED, Status.REFUSED, Status.WRONG))
        return f"{self.counts.get(Status.PASSED, 0)}/{applied}"

    def as_json(self) -> dict[str, Any]:
        """Return the fields as JSON types."""
        return {
            "name": self.name,
            "overloads": list(self.overloads),
            "passed_overloads": list(self.passed_overloads),
            "status": self.status,
            "counts": {
                status.value: number for status, number in sorted(self.counts.items(), key=lambda i: i[0].value)
            },
            "reasons": list(self.reasons),
            "examples": list(self.examples),
        }


def row(name: str, outcomes: Sequence[Outcome]) -> Row:
    """Return what the outcomes of an operator's samples amount to."""
    counts = Counter(outcome.status for outcome in outcomes)
    shown = Status.WRONG if counts[Status.WRONG] else Status.REFUSED
    reasons = [reason for reason, _ in Counter(o.reason for o in outcomes if o.status is shown).most_common()]
    if counts[Status.WRONG]:
        status = "wrong"
    elif counts[Status.PASSED] and any(o.is_reached for o in outcomes if o.status is Status.PASSED):
        status = "partly" if counts[Status.REFUSED] else "passed"
    else:
        status = "refused"
        reasons = reasons or [
            NOT_REACHED if counts[Status.PASSED] else NO_ELEMENTS if counts[Status.EMPTY] else NO_SAMPLE
        ]
    overloads = core_overloads()[name]
    direct = {outcome.overload for outcome in outcomes if outcome.status is Status.PASSED}
    return Row(
        name=name,
        overloads=overloads,
        passed_overloads=tuple(overload for overload in overloads if overload in direct),
        status=status,
        counts=counts,
        reasons=tuple(reasons),
        examples=tuple(f"{o.call}: {o.reason}" for o in outcomes if o.status is Status.WRONG),
    )


def summary(rows: Sequence[Row]) -> dict[str, int]:
    """Return the numbers of the report: names and overloads of core ATen, names by status, samples by status."""
    core = core_overloads()
    by_status = Counter(row.status for row in rows)
    samples: Counter[Status] = Counter()
    for one in rows:
        samples.update(one.counts)
    return {
        "core_overloads": sum(map(len, core.values())),
        "core_names": len(core),
        "excluded_names": len(core) - len(counted_names()),
        "checked_names": len(rows),
        **{status: by_status[status] for status in STATUSES},
        "passed_overloads": sum(len(one.passed_overloads) for one in rows),
        **{f"samples_{status.name.lower()}": samples[status] for status in Status},
    }


def as_markdown(rows: Sequence[Row], torch_version: str) -> str:
    """Return the page docs/coverage.md."""
    numbers = summary(rows)
    lines = [
        "# Operator coverage",
        "",
        (
            "Written by `python -m benchmarks.coverage --write docs/coverage.md`: every core-tagged ATen operator "
            f"of torch {torch_version} through export, program and native run against eager, on torch's own OpInfo "
            "samples (float32, int64, bool) and on a few of our own. Each operator is called as users call it and as "
            "`torch.ops.aten.X.overload`."
        ),
        "",
        (
            f"Of {numbers['core_names']} names ({numbers['core_overloads']} overloads) {numbers['excluded_names']} "
            f"have no meaning at inference; of the other {numbers['checked_names']}:"
        ),
        "",
        "| passed | partly | refused | wrong | overloads that passed | samples that passed |",
        "|---|---|---|---|---|---|",
        (
            f"| {numbers['passed']} | {numbers['partly']} | {numbers['refused']} | {numbers['wrong']} "
            f"| {numbers['passed_overloads']} | {numbers['samples_passed']} |"
        ),
        "",
        (
            "*Partly*: some samples run, the others are refused at export, as said. *Wrong*: a result differs, "
            f"or anything but `ExportError` was raised. Floats agree within {ATOL:g} + {RTOL:g}·|eager|, NaN and "
            "infinities at the same places; integers, bools, types and shapes exactly. Tensors without elements are "
            f"refused by design and not counted ({numbers['samples_empty']} samples), nor are element types "
            f"that programs don't have ({numbers['samples_inapplicable']} samples)."
        ),
        "",
        "| name | overloads (passed in bold) | status | samples | reason |",
        "|---|---|---|---|---|",
    ]
    for one in rows:
        overloads = ", ".join(f"**{o}**" if o in one.passed_overloads else o for o in one.overloads)
        lines.append(f"| {one.name} | {overloads} | {one.status} | {one.samples} | {_cell(one.reason)} |")
    lines += ["", "## Left out", "", "| name | reason |", "|---|---|"]
    lines += [f"| {name} | {EXCLUDED[name]} |" for name in sorted(EXCLUDED)]
    lines += ["", f"Overloads named `{OUT}` write into a tensor that is given; a traced graph has none of them."]
    lines += ["", *difference_lines()]
    if TOLERANCES:
        lines += ["", "## Other tolerances", "", "| name | relative | absolute | reason |", "|---|---|---|---|"]
        lines += [f"| {name} | {r:g} | {a:g} | {why} |" for name, (r, a, why) in sorted(TOLERANCES.items())]
    return "\n".join([*lines, ""])


def difference_lines() -> list[str]:
    """Return the part of the page on special values."""
    lines = ["## Where special values differ from eager", "", "| what | how |", "|---|---|"]
    return lines + [f"| {name} | {_cell(text)} |" for name, text in DIFFERENCES.items()]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
