"""Runs all parts of the audit and says whether the product passes it and the wrong builds do not."""

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from multiprocessing import get_context
from typing import Final

import numpy as np

from benchmarks.privacy.bounds import Bound, bound_loss
from benchmarks.privacy.builds import BUILDS, RIGHT
from benchmarks.privacy.canary import Search, search_aggregators
from benchmarks.privacy.enumeration import fit_probability
from benchmarks.privacy.exactness import EPSILONS, SENSITIVITY, Exactness, check_floats, check_sampler
from benchmarks.privacy.releases import VIEWS, Releases, release_batches, release_neighbours
from benchmarks.privacy.runs import run_batches
from benchmarks.privacy.seats import FIRST, SECOND

FALSE_ALARM: Final = 1e-9
"""Of the chi-square test."""

LEAST_SHARE: Final = 0.85
"""Of epsilon that the bound must reach, else the audit could not see a loss that is a little too large."""

CHUNK: Final = 2_500
"""Releases of a process at a time."""

Report = Callable[[str], None]


@dataclass(frozen=True)
class Finding:
    """What the releases of one build showed.

    Attributes:
        build: of `BUILDS`.
        epsilon: of the task.
        releases: of each input.
        is_pair: whether both aggregators released.
        bounds: by who looks, of `VIEWS`.
        fit: how probable it is that right noise fits its distribution worse.
    """

    build: str
    epsilon: Fraction
    releases: int
    is_pair: bool
    bounds: Mapping[str, Bound]
    fit: float

    @property
    def is_caught(self) -> bool:
        """Whether a loss is above epsilon, or the noise has another distribution than it should."""
        return self.fit < FALSE_ALARM or any(bound.loss > self.epsilon for bound in self.bounds.values())


WRONG: Final = {
    "forgets": (Fraction(1), 60, True),
    "shared seed": (Fraction(1), 60, True),
    "sensitivity 1": (Fraction(2), 600, False),
    "floats": (Fraction(2), 200, False),
}
"""Epsilon, releases of each input and whether the leader releases too: what catches each wrong build for sure."""


def find(build: str, epsilon: Fraction, first: Releases, second: Releases) -> Finding:
    """Return what the releases of both inputs show."""
    is_pair = len(first.leader_noise) > 0
    views = VIEWS if is_pair else ("leader",)
    bounds = {view: bound_loss(first.view(view), second.view(view)) for view in views}
    noise = [part for each in (first, second) for part in (each.leader_noise, each.helper_noise)]
    values = np.concatenate([part.ravel() for part in noise]).tolist()
    return Finding(
        build, epsilon, len(first.helper_noise), is_pair, bounds, fit_probability(values, SENSITIVITY / epsilon)
    )


def audit_build(build: str) -> Finding:
    """Return what a wrong build's releases show, at the size that catches it."""
    epsilon, releases, is_pair = WRONG[build]
    return find(build, epsilon, *asyncio.run(release_neighbours(releases, epsilon, build=build, is_pair=is_pair)))


def audit_releases(
    releases: int, epsilon: Fraction, *, is_pair: bool, processes: int = 1, until_s: float | None = None, report: Report
) -> Finding:
    """Return what releases of the product show.

    Args:
        releases: of each input.
        epsilon: of the task.
        is_pair: whether the leader releases too.
        processes: how many work at once.
        until_s: of the monotonic clock: no more are begun after it; None: no end.
        report: called with the progress.
    """
    found: tuple[list[Releases], list[Releases]] = ([], [])
    running: dict[Future[Releases], int] = {}
    chunks = (which for _ in count() for which in (0, 1))
    left = 2 * -(-releases // CHUNK)
    begin_s = time.monotonic()
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        while left or running:
            is_over = until_s is not None and time.monotonic() > until_s
            while left and len(running) < processes and (not is_over or left % 2):  # as many of either input
                which = next(chunks)
                running[pool.submit(_release, which, min(CHUNK, releases), epsilon, is_pair)] = which
                left -= 1
            if not running:
                break
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                found[running.pop(done)].append(done.result())
            made = sum(len(each.helper_noise) for part in found for each in part)
            rate = made / (time.monotonic() - begin_s)
            report(
                f"{'pairs of releases' if is_pair else 'releases'}: {made:,} of {2 * releases:,}, {rate:.0f} a second"
            )
    return find(RIGHT, epsilon, _join(found[0]), _join(found[1]))


def _release(which: int, releases: int, epsilon: Fraction, is_pair: bool) -> Releases:
    return asyncio.run(release_batches((FIRST, SECOND)[which], releases, epsilon, is_pair=is_pair))


def _join(parts: list[Releases]) -> Releases:
    return Releases(
        parts[0].counts,
        np.concatenate([part.leader_noise for part in parts]),
        np.concatenate([part.helper_noise for part in parts]),
    )


@dataclass(frozen=True)
class Audit:
    """All that was found.

    Attributes:
        epsilon: of the product's tasks.
        runs: whole runs of each input.
        exact_runs: how many of both were released to the unit.
        product: what releases of the product showed: of the helper, and of both.
        exactness: of the sampler, by epsilon.
        floats: the same of the sampler of floats.
        builds: what the wrong builds' releases showed.
        searches: for a measurement.
    """

    epsilon: Fraction
    runs: int
    exact_runs: int
    product: tuple[Finding, ...]
    exactness: tuple[Exactness, ...]
    floats: Exactness
    builds: tuple[Finding, ...]
    searches: tuple[Search, ...]

    @property
    def problems(self) -> list[str]:
        """Return what is not as it should be; nothing: the audit is passed."""
        found = []
        if self.exact_runs != 2 * self.runs:
            found.append(f"{2 * self.runs - self.exact_runs} runs released something else than shares and noise")
        for finding in self.product:
            found += [
                f"a loss of {bound.loss:.3f} for {view}"
                for view, bound in finding.bounds.items()
                if bound.loss > self.epsilon
            ]
            if finding.fit < FALSE_ALARM:
                found.append(f"the noise does not fit its distribution: {finding.fit:.1e}")
        if self.product[0].bounds["leader"].loss < LEAST_SHARE * self.epsilon:
            found.append(f"too few releases: the bound is below {LEAST_SHARE} ε")
        found += [
            f"the sampler is wrong at ε = {each.epsilon}"
            for each in self.exactness
            if not each.is_exact or each.loss != 1
        ]
        found += [f"the wrong build is not caught: {each.build}" for each in self.builds if not each.is_caught]
        if self.floats.is_exact:
            found.append("the sampler of floats is not caught by enumeration")
        for search in self.searches:
            if search.is_control and not search.found:
                found.append(f"the search misses a leak: {search.place}")
            if not search.is_control and search.found:
                found.append(f"a measurement is in the {search.party}'s {search.place}")
        return found


def run_audit(
    *, runs: int, releases: int, pairs: int, epsilon: Fraction, processes: int, minutes: float | None, report: Report
) -> Audit:
    """Return what all parts find; `minutes` ends the releases early."""
    report("stores, logs and memory")
    searches = tuple(search_aggregators())
    exact_runs = sum(run.is_exact for run in asyncio.run(run_batches(runs, epsilon, report=report)))
    builds = []
    for build in BUILDS:
        if build != RIGHT:
            report(f"wrong build: {build}")
            builds.append(audit_build(build))
    begin_s = time.monotonic()
    findings = []
    for number, is_pair, share in ((pairs, True, 0.25), (releases, False, 1.0)):
        until_s = None if minutes is None else begin_s + 60 * minutes * share
        findings.append(
            audit_releases(number, epsilon, is_pair=is_pair, processes=processes, until_s=until_s, report=report)
        )
    return Audit(
        epsilon,
        runs,
        exact_runs,
        (findings[1], findings[0]),
        tuple(check_sampler(each) for each in EPSILONS),
        check_floats(epsilon),
        tuple(builds),
        searches,
    )
