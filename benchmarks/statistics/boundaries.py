"""Measures error rates of the decisions where each is weakest: at the boundary of its null hypothesis.

A row is a number of simulated rollouts or experiments whose truth lies exactly on the boundary: treatment minus control
at the guardrail's margin, equal arms, groups of the planned sizes. Each is read at the end of every window. The bounds
are those of the server (`stats/one_sided.py`, `strata.py`, `_shares.py`), on arrays of all runs at once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import combinations, pairwise

import numpy as np
from alcove.platform.domain.rollouts.looks import EARLY_PART
from alcove.platform.stats import AlwaysValidBound, HarmBound, Look, Mechanism, PlannedBound
from alcove.platform.stats._shares import ShareSums, sampling_at_margin, share_difference
from alcove.platform.stats.aggregator_noise import cell_variance, draw_noise
from alcove.platform.stats.confidence_sequence import critical_value, normal_quantile
from alcove.platform.stats.exact_e_process import log_evidence
from alcove.platform.stats.group_sequential import boundaries
from alcove.platform.stats.limits import MAX_SIZE_VARIATION, SAMPLE_RATIO_ALPHA
from alcove.platform.stats.one_sided import expected_score
from alcove.platform.stats.strata import StratumDifference, combine, combine_weights
from alcove.privacy.randomized_response import RandomizedResponse
from numpy.typing import NDArray

from benchmarks.sections import Section, table_lines

SECTION = Section("boundaries", "python -m benchmarks.statistics --boundaries --write docs/statistics.md")
ALPHA = 0.05
LIMIT = 0.999
MARGIN = 0.005
BASE_RATE = 0.01
RARE_RATE = 0.001
WINDOWS = 4
EARLY_WINDOWS = 2
_SUMS = np.array([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 1.0]])
"""Events and base of the treatment, then of the control, over the cells: event and none of either group."""


@dataclass(frozen=True)
class Row:
    """Runs in which something was called that is not so.

    Attributes:
        name: what was simulated.
        reports: how they are made private.
        false: runs with a false call.
        runs: of all.
        nominal: part of them that may have one.
    """

    name: str
    reports: str
    false: int
    runs: int
    nominal: float

    @property
    def lowest(self) -> float:
        """Lower limit of the rate (Clopper and Pearson 1934), below which it lies with a chance of 0.1 %."""
        from scipy.stats import beta

        return float(beta.ppf(1.0 - LIMIT, self.false, self.runs - self.false + 1)) if self.false else 0.0


@dataclass(frozen=True)
class Source:
    """How the cells of a window become what the server reads: four sums with the covariance of their noise."""

    mechanism: Mechanism
    epsilon: Fraction = Fraction(1)

    @property
    def name(self) -> str:
        """Words for people."""
        words = {Mechanism.EXACT: "exact", Mechanism.PRIO3: "two aggregators"}
        name = words.get(self.mechanism, "randomized response")
        return name if self.mechanism is Mechanism.EXACT else f"{name}, ε = {self.epsilon}"

    def read(self, rng: np.random.Generator, cells: NDArray[np.int64]) -> ShareSums:
        """Return the sums of one window; `cells` int64 [runs, 4]."""
        if self.mechanism is Mechanism.EXACT:
            return ShareSums(cells.astype(np.float64) @ _SUMS.T, np.zeros((4, 4)))
        if self.mechanism is Mechanism.PRIO3:
            noised = (cells + draw_noise(rng, cells.shape, self.epsilon)).astype(np.float64)
            return ShareSums(noised @ _SUMS.T, _SUMS @ _SUMS.T * cell_variance(self.epsilon))
        mechanism = RandomizedResponse(4, self.epsilon)
        other = float(mechanism.other_probability)
        gap = float(mechanism.keep_probability) - other
        answers = np.full((4, 4), other) + np.eye(4) * gap
        counts = sum(rng.multinomial(cells[:, cell], answers[cell] / answers[cell].sum()) for cell in range(4))
        estimates = (counts - cells.sum(axis=1, keepdims=True) * other) / gap
        means = answers @ _SUMS.T
        per_report = np.einsum("jc,ac,bc->jab", answers, _SUMS, _SUMS) - np.einsum("ja,jb->jab", means, means)
        return ShareSums(estimates @ _SUMS.T, np.einsum("rj,jab->rab", estimates, per_report) / gap**2)


@dataclass(frozen=True, eq=False)
class Reading:
    """All reports of one stage up to the end of a window."""

    shares: ShareSums
    reports: int
    per_device: int

    def difference(self, margin: float | None = None) -> StratumDifference:
        """Return what a guardrail reads of it; with a margin, as for SAFE."""
        found = share_difference(self.shares, reports_per_device=self.per_device)
        sampling = found.sampling
        if margin is not None:
            sampling = sampling_at_margin(self.shares, margin, reports_per_device=self.per_device)
        return StratumDifference(found.value, sampling, found.noise, self.reports / self.per_device)

    @property
    def is_known(self) -> NDArray[np.bool_]:
        """Where the noise leaves the sizes of both groups known."""
        return np.asarray(share_difference(self.shares).size_variation <= MAX_SIZE_VARIATION)


@dataclass(frozen=True)
class Fleet:
    """Groups of equal size in each stage, which report in every window.

    Attributes:
        source: of the sums.
        groups: devices of a group in each stage, rising.
        windows: of each stage.
        difference: treatment minus control.
        is_same: the same devices in all windows and stages, each with the same answer; else new ones in each window.
        base_rate: of the control.
    """

    source: Source
    groups: tuple[int, ...]
    windows: int
    difference: float
    is_same: bool = False
    base_rate: float = BASE_RATE

    def read(self, rng: np.random.Generator, runs: int) -> Iterator[list[Reading]]:
        """Give the readings of the stages so far, the present one last, at the end of each window."""
        rates = (self.base_rate + self.difference, self.base_rate)
        chances = np.array([part / 2.0 for rate in rates for part in (rate, 1.0 - rate)])
        done: list[Reading] = []
        cells = np.zeros((runs, 4), dtype=np.int64)
        for before, group in pairwise((0, *self.groups)):
            cells = cells + rng.multinomial(2 * (group - before), chances, size=runs)
            sums, noise = np.zeros((runs, 4)), np.zeros((4, 4))
            for window in range(1, self.windows + 1):
                own = cells if self.is_same else rng.multinomial(2 * group, chances, size=runs)
                seen = self.source.read(rng, own)
                sums, noise = sums + seen.sums, noise + seen.noise
                per_device = window if self.is_same else 1
                yield [*done, Reading(ShareSums(sums, noise), 2 * group * window, per_device)]
            done.append(Reading(ShareSums(sums, noise), 2 * group * self.windows, self.windows if self.is_same else 1))


def is_harmful(readings: Sequence[Reading], bound: HarmBound) -> NDArray[np.bool_]:
    """Return in which runs the guardrail says HARMFUL."""
    if all(not each.shares.noise.any() for each in readings):
        parts = [each.shares.sums / each.per_device for each in readings]
        evidence = [log_evidence(one[:, 0], one[:, 1], one[:, 2], one[:, 3], MARGIN) for one in parts]
        return np.asarray(np.sum(evidence, axis=0) >= -np.log(bound.alpha))
    differences = [each.difference() for each in readings]
    found = combine(differences, combine_weights(differences))
    is_known = np.logical_and.reduce([each.is_known for each in readings])
    return np.asarray(is_known & (found.value - bound.critical_value() * found.standard_error > MARGIN))


def is_safe(readings: Sequence[Reading], bound: PlannedBound) -> NDArray[np.bool_]:
    """Return in which runs the guardrail says SAFE."""
    factor = bound.critical_value()
    weights = combine_weights([each.difference() for each in readings])
    found = combine([each.difference(MARGIN) for each in readings], weights)
    is_known = np.logical_and.reduce([each.is_known for each in readings])
    return np.asarray(is_known & (found.value + factor * found.standard_error < MARGIN))


def harm_calls(fleet: Fleet, rng: np.random.Generator, runs: int) -> int:
    """Return in how many runs the test of harm, one for all stages, ever calls."""
    planned = 2 * fleet.groups[0] * fleet.windows
    later = max(planned, sum(fleet.groups) * fleet.windows)
    called = np.zeros(runs, dtype=bool)
    looks: tuple[Look, ...] = ()
    for window, readings in enumerate(fleet.read(rng, runs), 1):
        reports = sum(each.reports for each in readings)
        looks = (*looks, Look(window, reports))
        at_will = AlwaysValidBound(ALPHA * (1.0 - EARLY_PART), reports, planned, later)
        is_early = window <= EARLY_WINDOWS
        early = PlannedBound(ALPHA * EARLY_PART, looks, EARLY_WINDOWS) if is_early else None
        called |= is_harmful(readings, HarmBound(at_will, early))
    return int(called.sum())


def safe_calls(fleet: Fleet, rng: np.random.Generator, runs: int) -> int:
    """Return in how many runs the last stage is ever found safe, whatever was decided before it."""
    called = np.zeros(runs, dtype=bool)
    looks: tuple[Look, ...] = ()
    for readings in fleet.read(rng, runs):
        if len(readings) == len(fleet.groups):
            looks = (*looks, Look(len(looks) + 1, sum(each.reports for each in readings)))
            called |= is_safe(readings, PlannedBound(ALPHA, looks, fleet.windows))
    return int(called.sum())


def win_calls(
    arms: int, analyses: int, rng: np.random.Generator, runs: int, *, epsilon: Fraction | None, is_at_will: bool
) -> int:
    """Return in how many runs one of equal arms is ever better than each other one, alpha for each pair.

    Args:
        arms: of equal shares and an accepted share of 70 %.
        analyses: after equal numbers of reports.
        rng: of the simulation.
        runs: how many.
        epsilon: of randomized response; None: exact counts.
        is_at_will: read by the always-valid test, tuned at the last analysis; else by planned analyses.
    """
    step, rate, cells = 40_000 * arms, 0.7, 2 * arms
    chances = np.tile([rate, 1.0 - rate], arms) / arms
    keep, other = 1.0, 0.0
    if epsilon is not None:
        mechanism = RandomizedResponse(cells, epsilon)
        keep, other = float(mechanism.keep_probability), float(mechanism.other_probability)
    gap = keep - other
    answers = np.full((cells, cells), other) + np.eye(cells) * gap
    counts, won = np.zeros((runs, cells)), np.zeros(runs, dtype=bool)
    information = tuple((analysis + 1) / analyses for analysis in range(analyses))
    planned = boundaries(information, ALPHA)
    for analysis in range(1, analyses + 1):
        counts = counts + rng.multinomial(step, other + gap * chances, size=runs)
        estimates = (counts - step * analysis * other) / gap
        bound = planned[analysis - 1]
        if is_at_will:
            bound = critical_value(reports=step * analysis, alpha=ALPHA, planned_reports=step * analyses)
        beats = np.ones((arms, runs), dtype=bool)
        for one, two in combinations(range(arms), 2):
            sums = np.zeros((4, cells))
            sums[0, 2 * one], sums[1, 2 * one : 2 * one + 2] = 1.0, 1.0
            sums[2, 2 * two], sums[3, 2 * two : 2 * two + 2] = 1.0, 1.0
            means = answers @ sums.T
            per_report = np.einsum("jc,ac,bc->jab", answers, sums, sums) - np.einsum("ja,jb->jab", means, means)
            noise = np.einsum("rj,jab->rab", estimates, per_report) / gap**2
            found = share_difference(ShareSums(estimates @ sums.T, noise))
            score = found.value / found.standard_error
            beats[one] &= score > bound
            beats[two] &= score < -bound
        won |= beats.any(axis=0)
    return int(won.sum())


def ratio_calls(
    rng: np.random.Generator, runs: int, *, share: float, reports: int, epsilon: Fraction, cells: int
) -> int:
    """Return in how many runs a planned 50 : 50 is called a mismatch where `share` of the devices are in one arm.

    Args:
        rng: of the simulation.
        runs: how many.
        share: of one arm.
        reports: of both arms in four windows, the same devices in each.
        epsilon: of randomized response.
        cells: of a report; half of them in either arm.
    """
    mechanism = RandomizedResponse(cells, epsilon)
    keep, other = float(mechanism.keep_probability), float(mechanism.other_probability)
    gap, half = keep - other, cells / 2.0
    stay, move = keep + (half - 1.0) * other, half * other  # that a device of an arm names a cell of it, of the other
    devices = reports // WINDOWS
    size = rng.binomial(devices, share, size=runs)
    named, found = np.zeros(runs), np.zeros(runs, dtype=bool)
    for window in range(1, WINDOWS + 1):
        named = named + rng.binomial(size, stay) + rng.binomial(devices - size, move)
        total = devices * window
        part = (named / total - move) / gap
        noise = (part * stay * (1.0 - stay) + (1.0 - part) * move * (1.0 - move)) / (gap * gap * total)
        error = np.sqrt(window * part * (1.0 - part) / total + noise)
        bound = critical_value(reports=total, alpha=SAMPLE_RATIO_ALPHA / 2.0, planned_reports=reports)
        found |= np.abs(part - 0.5) > bound * error
    return int(found.sum())


RR1, RR2 = (Source(Mechanism.RANDOMIZED_RESPONSE, Fraction(epsilon)) for epsilon in (1, 2))
PRIO3 = Source(Mechanism.PRIO3)
EXACT = Source(Mechanism.EXACT)
FLEETS = {EXACT: (3_000, 30_000, 150_000), PRIO3: (3_000, 30_000, 150_000), RR2: (20_000, 200_000, 1_000_000)}
FLEETS[RR1] = (60_000, 600_000, 3_000_000)


def all_rows(runs: int, seed: int) -> list[Row]:
    """Return the table, every row of `runs` runs."""
    rng = np.random.default_rng(seed)
    rows = []

    def add(name: str, reports: str, calls: Callable[[np.random.Generator, int], int], nominal: float = ALPHA) -> None:
        rows.append(Row(name, reports, calls(rng, runs), runs, nominal))

    for source, groups in FLEETS.items():
        for what, windows, called, same in (
            ("one stage", 14, groups[:1], False),
            ("one stage, the same devices", WINDOWS, groups[:1], True),
            ("three stages", WINDOWS, groups, False),
            ("three stages, the same devices", WINDOWS, groups, True),
        ):
            fleet = Fleet(source, called, windows, MARGIN, same)
            add(f"harm at the margin, {what}", source.name, partial(harm_calls, fleet))
            fleet = Fleet(source, called, WINDOWS, MARGIN, same)
            add(f"safe at the margin, {what}", source.name, partial(safe_calls, fleet))
    for source, groups in FLEETS.items():
        fleet = Fleet(source, groups[:1], WINDOWS, MARGIN, base_rate=RARE_RATE)
        add(f"harm at the margin, crashes {RARE_RATE:.1%}", source.name, partial(harm_calls, fleet))
        add(f"safe at the margin, crashes {RARE_RATE:.1%}", source.name, partial(safe_calls, fleet))
    for arms in (2, 3, 5, 8):
        for epsilon in (None, Fraction(2)):
            reports = EXACT.name if epsilon is None else RR2.name
            for name, analyses, at_will in (("one analysis", 1, False), ("five", 5, False), ("at will", 14, True)):
                calls = partial(_win, arms, analyses, epsilon, is_at_will=at_will)
                add(f"a win of {arms} equal arms, {name}", reports, calls)
    for epsilon, cells in ((Fraction(2), 8), (Fraction(1), 4)):
        calls = partial(_ratio, epsilon, cells)
        add(f"sample ratio, {cells} cells", f"randomized response, ε = {epsilon}", calls, SAMPLE_RATIO_ALPHA)
    return rows


def _win(
    arms: int, analyses: int, epsilon: Fraction | None, rng: np.random.Generator, runs: int, *, is_at_will: bool
) -> int:
    return win_calls(arms, analyses, rng, runs, epsilon=epsilon, is_at_will=is_at_will)


def _ratio(epsilon: Fraction, cells: int, rng: np.random.Generator, runs: int) -> int:
    return ratio_calls(rng, runs, share=0.5, reports=1_000_000, epsilon=epsilon, cells=cells)


def prices() -> list[tuple[str, float]]:
    """Return how many times the devices of the best valid test are needed to find an effect with 80 %.

    Harm: against the mixture sequential probability ratio test that is tuned where it is read; rollouts of 1, 10 and
    50 % by windows alike, tuned as a plan does it, read after the early windows and then. Safe: against one fixed test
    at the horizon.
    """
    stages = (0.01, 0.10, 0.50)
    first, early = stages[0] * WINDOWS, stages[0] * EARLY_WINDOWS
    early_bound = PlannedBound.plan(ALPHA * EARLY_PART, EARLY_WINDOWS).critical_value()
    found = []

    def price(reports: float, later: float) -> float:
        at_will = AlwaysValidBound(ALPHA * (1.0 - EARLY_PART), reports * 1e6, round(first * 1e6), round(later * 1e6))
        bounds = (early_bound, at_will.critical_value())
        own = (
            expected_score((early / reports, 1.0), bounds, 0.8)
            if reports > early
            else early_bound + normal_quantile(0.8)
        )
        best = min(
            AlwaysValidBound(ALPHA, reports * 1e6, round(reports * 1e6 * scale)).critical_score(0.8)
            for scale in np.geomspace(0.2, 5.0, 101)
        )
        return (own / best) ** 2

    found.append(("harm, one stage of four windows, at the horizon", price(first, first)))
    for windows, reports in (
        (2, 2 * stages[0]),
        (4, first),
        (8, first + WINDOWS * stages[1]),
        (12, WINDOWS * sum(stages)),
    ):
        found.append(
            (f"harm, stages of 1, 10 and 50 %, after window {windows}", price(reports, WINDOWS * sum(stages) / 2.0))
        )
    planned = PlannedBound.plan(ALPHA, WINDOWS).critical_score(0.8)
    fixed = PlannedBound.plan(ALPHA, 1).critical_score(0.8)
    found.append(("safe, four looks, against a single one at the horizon", (planned / fixed) ** 2))
    return found


def power_of_sample_ratio(runs: int, seed: int) -> list[tuple[str, float]]:
    """Return how often imbalances are found at 1,000,000 reports in four windows, eight cells, ε 2."""
    rng = np.random.default_rng(seed)
    return [
        (
            f"{100 * share:g} : {100 - 100 * share:g}",
            ratio_calls(rng, runs, share=share, reports=1_000_000, epsilon=Fraction(2), cells=8) / runs,
        )
        for share in (0.51, 0.505)
    ]


def boundary_lines(runs: int, seed: int) -> tuple[list[str], list[Row]]:
    """Return the tables, and the rows of error rates."""
    rows = all_rows(runs, seed)
    pooled = pooled_rate(row for row in rows if row.nominal == ALPHA)
    spent = pooled_rate(row for row in rows if row.name.startswith("safe"))
    lines = [
        "### Boundaries: error rates where each test is weakest",
        "",
        f"{runs:,} runs a row. Harm and safe: a version exactly at the margin, {MARGIN:.1%} of crashes above the",
        f"control's {BASE_RATE:.0%}; read at the end of each window (14 for harm in one stage, else four a stage);",
        "stages of rising groups, read together; *safe* of the last of three stages, whatever the others said. *The",
        "same devices*: each says the same in every window, and those of a stage are among those of the next; else",
        "new ones in each window. Win: one of equal arms is called better than each other one, at one analysis, five,",
        f"or 14 at will. Lowest: lower {LIMIT:.1%} limit of Clopper and Pearson. All rows with {ALPHA:.0%} together:",
        f"{pooled:.2%}; those of *safe*, which spend all of their error, {spent:.2%}.",
        "",
        *table_lines(
            ("called though it is not so", "reports", "rate", "lowest", "nominal"),
            [
                (row.name, row.reports, f"{row.false / row.runs:.2%}", f"{row.lowest:.2%}", f"{row.nominal:.0%}")
                for row in rows
            ],
        ),
        "Devices needed to find an effect with 80 %, relative to the best valid test: for harm the mixture sequential",
        "probability ratio test tuned at that moment, for safety one test at the horizon. Below 1 where",
        "early looks call, which are not made at any time. Exact counts, which no",
        "server has, are tested for harm by an e-process that holds even for one crash, and needs more.",
        "",
        *table_lines(("test", "devices"), [(name, f"{value:.2f}") for name, value in prices()]),
        "An assignment that should be 50 : 50 at 1,000,000 reports of four windows, randomized response, ε = 2, eight",
        f"cells, tuned as planned; found in {runs:,} runs:",
        "",
        *table_lines(
            ("really", "found"), [(name, f"{value:.1%}") for name, value in power_of_sample_ratio(runs, seed + 1)]
        ),
    ]
    return lines, rows


def pooled_rate(rows: Iterable[Row]) -> float:
    """Return the part of all runs with a false call."""
    kept = list(rows)
    return sum(row.false for row in kept) / sum(row.runs for row in kept)


def failures(rows: Sequence[Row]) -> list[str]:
    """Return the names of rows whose lower limit is above nominal."""
    return [f"{row.name}, {row.reports}" for row in rows if row.lowest > row.nominal]
