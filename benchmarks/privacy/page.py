"""Writes what the audit found as a page."""

from collections.abc import Sequence

from benchmarks.privacy.audit import FALSE_ALARM, WRONG, Audit, Finding
from benchmarks.privacy.bounds import CONFIDENCE
from benchmarks.privacy.builds import BUILDS
from benchmarks.privacy.canary import BITS, CAN_READ_MEMORY, REPORTS
from benchmarks.privacy.releases import VIEWS
from benchmarks.privacy.seats import FIRST, SECOND
from benchmarks.sections import table_lines

COMMAND = "python -m benchmarks.privacy --write docs/privacy-audit.md"


def write_page(audit: Audit, where: str) -> str:
    """Return the page."""
    verdict = "; ".join(audit.problems) or "passed"
    return "\n".join(
        [
            "# Privacy audit of the two aggregators",
            "",
            f"Written by `{COMMAND}`, on {where}. It runs the product's own code from the device's report to the",
            "collector's sums and measures what the released numbers tell about one device. Read it if you want to",
            "know whether the aggregators keep what [privacy.md](privacy.md) promises; run it after a change of what",
            "they release. `tests/benchmarks/test_privacy.py` repeats it smaller, `make thorough` with 100,000",
            "releases.",
            "",
            f"**Result:** {verdict}.",
            "",
            *_release_lines(audit),
            *_run_lines(audit),
            *_exactness_lines(audit),
            *_build_lines(audit.builds),
            *_search_lines(audit),
            "## What it does not show",
            "",
            "- A lower bound finds a loss that is too large; it does not prove that there is none. The proof is the",
            "  formula of the noise, and the enumeration shows that the sampler has it.",
            "- One release of one window. Several windows of a device add up; the ledger bounds the sum.",
            "- How long a release takes. The noise of a batch is drawn in one go, and not in the time of one sample.",
            "- Both aggregators together, or both run by one party: they can put every report together, as the control",
            "  of the search does.",
            "",
        ]
    )


def _release_lines(audit: Audit) -> list[str]:
    rows = [
        (
            VIEWS[view],
            f"{finding.releases:,}",
            f"**{bound.loss:.3f}**",
            f"{bound.loss / float(audit.epsilon):.2f} ε",
            bound.event,
            f"{bound.first:,} and {bound.second:,} of {bound.outputs:,}",
        )
        for finding in audit.product
        for view, bound in finding.bounds.items()
    ]
    fits = ", ".join(f"{finding.fit:.2f}" for finding in audit.product)
    moved = next(cell for cell, (one, other) in enumerate(zip(FIRST, SECOND, strict=True)) if other > one)
    return [
        "## The loss, from releases",
        "",
        f"Two neighbouring batches of {sum(FIRST)} devices: {_counts(FIRST)} in the cells, and the same where one",
        f"device reports cell {moved + 1} and not cell {1}. Devices, leader and helper make each batch once; its",
        "stored sums are then released again and again, by the aggregators' own functions, each time in a",
        f"transaction of its own, at ε = {audit.epsilon}. An aggregator knows its own share and its own noise, so only",
        "the other one's noise hides the sum from it: ε is promised against an aggregator that works with the",
        f"collector, and the collector alone learns less. Bounds hold with {CONFIDENCE:.1%} each (Clopper-Pearson);",
        "the event is chosen on one half of the releases and counted on the other. It compares the two cells with",
        "their sums of the first batch.",
        "",
        *table_lines(("who looks", "releases of each", "loss, at least", "of ε", "by the event", "seen"), rows),
        "For the first row the helper alone released, for the others the leader asked it to, by a collection job.",
        f"The noise of all these releases fits its formula: by chi-square, p = {fits}.",
        "",
    ]


def _run_lines(audit: Audit) -> list[str]:
    return [
        "## Whole runs",
        "",
        f"{audit.runs} runs of each batch, each from {sum(FIRST)} new reports of the device's code: upload,",
        "aggregation jobs, collection, opened by the collector. In each, the two stored sums should add up to the true",
        "counts, and what is released be that and the noise that both drew, to the unit. So it was in",
        f"{audit.exact_runs} of {2 * audit.runs} runs.",
        "",
    ]


def _exactness_lines(audit: Audit) -> list[str]:
    rows = [
        (
            str(each.epsilon),
            str(each.scale),
            str(each.values),
            "equal" if each.is_exact else "**not equal**",
            "ε" if each.loss == 1 else f"**{each.loss:.3f} ε**",
        )
        for each in audit.exactness
    ]
    return [
        "## The noise, exactly",
        "",
        "Every path of random choices through the sampler (`privacy/noise.py`), with probabilities as fractions. Each",
        "value's probability is compared with the formula as an equation; the loss is that of a replaced report.",
        "",
        *table_lines(("ε", "scale", "values", "formula", "largest loss"), rows),
    ]


def _build_lines(builds: Sequence[Finding]) -> list[str]:
    rows = []
    for finding in builds:
        view, bound = max(finding.bounds.items(), key=lambda item: item[1].loss)
        rows.append(
            (
                BUILDS[finding.build].about,
                str(WRONG[finding.build][0]),
                str(finding.releases),
                f"{bound.loss:.2f}",
                VIEWS[view],
                f"{finding.fit:.0e}",
                "yes" if finding.is_caught else "**no**",
            )
        )
    return [
        "## Wrong builds",
        "",
        "The same audit of four builds that are wrong on purpose (`benchmarks/privacy/builds.py`). A build is caught",
        f"by a loss above ε, or by noise that does not fit (chi-square below {FALSE_ALARM:g}).",
        "",
        *table_lines(("build", "ε", "releases of each", "loss, at least", "for", "fit", "caught"), rows),
        "The sampler of floats is a sign times the floor of a float: zero comes twice as often as it should, which few",
        "releases show, and its tail ends, which no number of releases shows. Enumeration does: from the largest value",
        "on its loss is infinite.",
        "",
    ]


def _search_lines(audit: Audit) -> list[str]:
    rows = [
        (search.party, search.place, f"{search.searched_bytes:,}", ", ".join(search.found) or "nothing")
        for search in audit.searches
    ]
    memory = [] if CAN_READ_MEMORY else ["Memory was not searched: that needs Linux.", ""]
    return [
        "## A measurement in rows, logs and memory",
        "",
        f"{REPORTS} devices report the same {BITS} random bits to two real processes, and the batch is collected. Then",
        "every file of each process and all memory that it can write are searched for the bits: as elements of 1 to 16",
        "bytes, packed, hexadecimal, as text and as a list of Python's integers, whole and in parts. The control holds",
        "the keys of both and puts the shares together.",
        "",
        *table_lines(("whose", "place", "bytes", "found"), rows),
        *memory,
    ]


def _counts(counts: Sequence[int]) -> str:
    return ", ".join(map(str, counts[:-1])) + f" and {counts[-1]}"
