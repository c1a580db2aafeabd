"""The audit of the aggregators passes what is right, catches what is wrong, and its search finds a leak anywhere."""

import asyncio
import math
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from alcove.privacy.prio3 import SumVec

from benchmarks.privacy.audit import FALSE_ALARM, LEAST_SHARE, Audit, Finding, audit_build, audit_releases, find
from benchmarks.privacy.bounds import IntArray, bound_loss, lower_log_ratio
from benchmarks.privacy.builds import RIGHT
from benchmarks.privacy.canary import (
    BITS,
    CAN_READ_MEMORY,
    PART,
    search_aggregators,
    search_files,
    search_memory,
    spell,
)
from benchmarks.privacy.exactness import check_floats, check_sampler
from benchmarks.privacy.page import write_page
from benchmarks.privacy.releases import release_neighbours
from benchmarks.privacy.runs import run_batches
from tests.selection import quick_among

ONE = Fraction(1)
NEEDS_MEMORY = pytest.mark.skipif(not CAN_READ_MEMORY, reason="the memory of another process is read on Linux")


def draw(generator: np.random.Generator, epsilon: float, shift: Sequence[int], outputs: int) -> dict[str, IntArray]:
    """Return noised sums of two cells, as right aggregators release them."""
    stop = 1 - math.exp(-epsilon / 2)
    noise = generator.geometric(stop, (outputs, 2)) - generator.geometric(stop, (outputs, 2))
    return {"share": noise + np.array(shift)}


def test_runs_release_the_shares_and_the_noise_to_the_unit() -> None:
    """From the device to the collector, for both inputs; a release that is off by one is no exact run."""
    runs = asyncio.run(run_batches(2, ONE))
    assert [run.counts[0] for run in runs] == [30, 29, 30, 29]
    assert all(run.is_exact for run in runs)
    assert any(noise for run in runs for noise in (*run.leader_noise, *run.helper_noise))
    first = runs[0]
    assert not replace(first, released=(first.released[0] + 1, *first.released[1:])).is_exact
    assert not replace(first, reports=99).is_exact


@pytest.mark.parametrize("build", quick_among(["forgets", "shared seed", "sensitivity 1"], ["forgets"]))
def test_wrong_build_loses_more_than_epsilon(build: str) -> None:
    """Shown by a bound that a right build exceeds once in a thousand audits, for who knows the leader's noise."""
    finding = audit_build(build)
    assert finding.bounds["leader"].loss > finding.epsilon
    assert finding.is_caught


def test_sampler_of_floats_is_caught_by_its_releases_and_by_enumeration() -> None:
    """Zero comes twice as often, and the support ends: after that value the loss is infinite."""
    assert audit_build("floats").fit < FALSE_ALARM
    floats = check_floats(ONE)
    assert not floats.is_exact
    assert floats.loss == math.inf


def test_right_build_of_the_same_size_is_not_caught() -> None:
    """Neither by a loss nor by its distribution; to nobody, the collector included."""
    finding = find(RIGHT, ONE, *asyncio.run(release_neighbours(60, ONE, is_pair=True)))
    assert not finding.is_caught
    assert set(finding.bounds) == {"leader", "helper", "collector"}


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_bound_of_right_noise_is_close_below_epsilon(epsilon: float) -> None:
    """With 10 ** 5 simulated outputs of each input, either one being the first."""
    generator = np.random.default_rng(round(10 * epsilon))
    one, other = (draw(generator, epsilon, shift, 100_000) for shift in ((0, 0), (-1, 1)))
    for first, second in ((one, other), (other, one)):
        bound = bound_loss(first, second)
        assert LEAST_SHARE * epsilon <= bound.loss <= epsilon
        assert bound.outputs == 50_000
    assert bound_loss(one, one).loss < 0.1 * epsilon


def test_bound_is_that_of_clopper_and_pearson() -> None:
    """At the ends of their intervals, which have a closed form, and far below the plain ratio for few outputs."""
    wrong = 0.0005
    certain = wrong ** (1 / 30)
    assert lower_log_ratio(30, 30, 0, 30) == pytest.approx(math.log(certain / (1 - certain)))
    assert lower_log_ratio(0, 30, 0, 30) == lower_log_ratio(10, 30, 10, 30) == 0
    assert 0 < lower_log_ratio(200, 500, 70, 500) < math.log(200 / 70)


def test_bound_is_rarely_above_the_truth() -> None:
    """Of 100 small audits of right noise, none says more than epsilon: the choice of the event costs nothing."""
    generator = np.random.default_rng(7)
    losses = [bound_loss(draw(generator, 1, (0, 0), 300), draw(generator, 1, (-1, 1), 300)).loss for _ in range(100)]
    assert max(losses) <= 1


def test_sampler_has_its_formula_and_no_loss_beyond_epsilon() -> None:
    """As an equation of rational numbers."""
    found = check_sampler(ONE)
    assert found.is_exact
    assert found.loss == 1
    assert found.values > 50


def make_bits(seed: int = 1) -> list[int]:
    """Return a measurement."""
    generator = random.Random(seed)
    return [generator.randrange(2) for _ in range(BITS)]


def test_every_spelling_in_a_file_is_found(tmp_path: Path) -> None:
    """Each alone, between other bytes; another measurement is not there."""
    bits, path = make_bits(), tmp_path / "rows.db"
    spellings = list(spell(bits))
    assert len({name for name, _ in spellings}) == 9
    for name, spelling in spellings:
        path.write_bytes(random.Random(2).randbytes(999) + spelling + bytes(999))
        size, found = search_files([path], bits)
        assert size == 1998 + len(spelling)
        assert name in found
        assert search_files([path], make_bits(3))[1] == ()
    assert SumVec(BITS, 1, 11).field.encode(bits[:PART]) in {spelling for _, spelling in spellings}  # as shares have it


@NEEDS_MEMORY
def test_measurement_in_the_memory_of_a_process_is_found() -> None:
    """As a list of integers, which no file would show, and as text; the search of another measurement finds nothing."""
    bits = make_bits()
    code = (
        f"import sys; kept = [int(each) for each in {''.join(map(str, bits))!r}]; print('ready', flush=True); input()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        size, found = search_memory(process.pid, bits)
        assert size > 1_000_000
        assert set(found) >= {"list of integers", "text"}
        assert search_memory(process.pid, make_bits(4))[1] == ()
        process.communicate()


def make_audit(**changes: object) -> Audit:
    """Return an audit that found nothing wrong, but for `changes`."""
    generator = np.random.default_rng(1)
    first, second = (draw(generator, 1, shift, 100_000) for shift in ((0, 0), (-1, 1)))
    finding = Finding(RIGHT, ONE, 100_000, False, {"leader": bound_loss(first, second)}, 0.5)
    caught = replace(finding, build="forgets", fit=0.0)
    whole = Audit(ONE, 2, 4, (finding,), (check_sampler(ONE),), check_floats(ONE), (caught,), ())
    return replace(whole, **changes)  # type: ignore[arg-type]


def test_page_names_each_problem() -> None:
    """An audit without one says so; a run that is off, a build that is not caught and a wrong sampler are named."""
    audit = make_audit()
    assert audit.problems == []
    assert "**Result:** passed" in write_page(audit, "a machine")
    missed = replace(audit.builds[0], fit=0.5)
    wrong = make_audit(exact_runs=3, builds=(missed,), exactness=(replace(check_sampler(ONE), is_exact=False),))
    assert len(wrong.problems) == 3
    for problem in wrong.problems:
        assert problem in write_page(wrong, "a machine")
    few = make_audit(
        product=(replace(missed, build=RIGHT, bounds={"leader": replace(missed.bounds["leader"], loss=0.5)}),)
    )
    assert few.problems == ["too few releases: the bound is below 0.85 ε"]


@pytest.mark.thorough
@NEEDS_MEMORY
def test_no_store_log_or_memory_of_the_aggregators_has_a_measurement() -> None:
    """Of two real processes after a batch; a process that holds both keys and adds the shares is found in all three."""
    searches = search_aggregators()
    places = {(search.is_control, search.place) for search in searches}
    assert places == {(control, place) for control in (True, False) for place in ("rows and keys", "log", "memory")}
    for search in searches:
        assert bool(search.found) == search.is_control, search
        assert search.searched_bytes > 0


@pytest.mark.thorough
@pytest.mark.timeout(3600)
def test_hundred_thousand_releases_of_each_input_lose_epsilon_and_no_more() -> None:
    """By the helper's own release function: a bound in [0.85, 1] of epsilon, and noise that fits its formula."""
    cores = len(os.sched_getaffinity(0))
    finding = audit_releases(100_000, ONE, is_pair=False, processes=cores, report=lambda _: None)
    assert finding.releases == 100_000
    assert LEAST_SHARE <= finding.bounds["leader"].loss <= 1, finding
    assert not finding.is_caught


@pytest.mark.thorough
@pytest.mark.timeout(3600)
def test_collected_batches_lose_epsilon_to_either_aggregator_and_less_to_the_collector() -> None:
    """20,000 collection jobs of each input, through both aggregators' releases."""
    cores = len(os.sched_getaffinity(0))
    finding = audit_releases(20_000, ONE, is_pair=True, processes=cores, report=lambda _: None)
    assert not finding.is_caught
    assert all(0.75 <= finding.bounds[view].loss <= 1 for view in ("leader", "helper")), finding
    assert finding.bounds["collector"].loss < min(finding.bounds[view].loss for view in ("leader", "helper"))
