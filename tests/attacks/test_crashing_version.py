"""A version that crashes the app at its nth answer, on one input, or now and then; and apps that are merely killed."""

import faulthandler
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from alcove.sdk.limits import CRASH_WEIGHT_S, MAX_CRASHES, MAX_CRASHES_KEPT, PULSE_S
from alcove.sdk.load_attempts import AttemptLog, Crash, is_crash_loop
from alcove.sdk.storage import Files

from tests.selection import quick_among

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")

DIGEST = "cd" * 32
SECOND_NS = int(CRASH_WEIGHT_S * 1e9)


@pytest.fixture
def folder(tmp_path: Path, unsynced: None) -> Path:
    """Where tries are kept."""
    return tmp_path / "tries"


def run_app(folder: Path, life: Callable[[Any], object], kind: str = "app") -> int:
    """Start a process that loads the version and lives so; return how it ended, -1 where the version is quarantined."""
    process = os.fork()
    if process == 0:
        code = 1
        faulthandler.disable()
        try:
            sys.argv[:] = [kind]
            attempt = AttemptLog(folder, Files()).begin(DIGEST)
            if attempt is None:
                code = 99
            else:
                attempt.leave(is_healthy=False)
                life(attempt)
                code = 0
        finally:
            os._exit(code)
    status = os.waitpid(process, 0)[1]
    return -1 if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 99 else status


def answer(attempt: Any, *, native_ns: int = 1000) -> None:
    """One run that goes well."""
    attempt.enter()
    attempt.leave(is_healthy=True, native_ns=native_ns)


def crashing_at(count: int, how: int = signal.SIGSEGV, *, native_ns: int = 1000) -> Callable[[Any], None]:
    """A life of `count - 1` answers and a crash in the next run."""

    def life(attempt: Any) -> None:
        for _ in range(count - 1):
            answer(attempt, native_ns=native_ns)
        attempt.enter()
        os.kill(os.getpid(), how)

    return life


def starts_until_quarantine(folder: Path, life: Callable[[Any], object], most: int) -> int:
    """Start the app again and again; return how many starts it took until the version is not loaded any more."""
    for start in range(most + 1):
        if run_app(folder, life) == -1:
            return start
    return most + 1


@pytest.mark.parametrize("how", quick_among([signal.SIGSEGV, signal.SIGKILL], {signal.SIGSEGV}))
def test_crash_at_the_nth_answer_ends_after_three_starts_for_every_n(folder: Path, how: int) -> None:
    """At the first, the second, a later one, the thousandth; and where every answer takes a second."""
    for count in (1, 2, 3, 5, 11, 64, 1000):
        for native_ns in (1000, SECOND_NS):
            assert starts_until_quarantine(folder, crashing_at(count, how, native_ns=native_ns), 4) == MAX_CRASHES
            for path in folder.iterdir():
                path.unlink()


def test_crash_on_one_input_ends_after_three_starts_whatever_came_before_it(folder: Path) -> None:
    """Each start answers another number of times, for less than a second in all, and then meets the input."""
    numbers: Iterator[int] = iter([1, 50, 7])
    for _ in range(MAX_CRASHES):
        assert os.WTERMSIG(run_app(folder, crashing_at(next(numbers)))) == signal.SIGSEGV
    assert run_app(folder, crashing_at(1)) == -1


@pytest.mark.parametrize("share", [0.9, 0.5, 0.25])
def test_version_that_crashes_in_a_share_of_the_starts_ends_too(folder: Path, share: float) -> None:
    """The others answer and end at rest; expected are (1 - c^3) / (c^3 (1 - c)) starts, 14 for a half."""
    chance = random.Random(7)
    expected = (1 - share**3) / (share**3 * (1 - share))

    def life(attempt: Any) -> None:
        answer(attempt)

    start = 0
    for start in range(1, int(20 * expected)):  # noqa: B007 - named by the assertion
        how = run_app(folder, crashing_at(2) if chance.random() < share else life)
        if how == -1:
            break
    assert run_app(folder, life) == -1, start


def test_several_processes_of_one_kind_and_of_others_on_one_folder(folder: Path) -> None:
    """A service that is well beside a keyboard that loops neither forgives it nor is blamed for it."""
    for _ in range(MAX_CRASHES):
        assert run_app(folder, answer, kind="service") == 0
        assert os.WTERMSIG(run_app(folder, crashing_at(2), kind="keyboard")) == signal.SIGSEGV
    assert run_app(folder, answer, kind="service") == -1


@pytest.mark.parametrize("name", ["app", "app.py", "messenger/__main__.py"])
def test_app_that_is_unpacked_elsewhere_at_each_start_leaves_the_version_too(folder: Path, name: str) -> None:
    """As an AppImage is mounted, or a bundle is updated: it is the same program from another folder."""
    for start in range(MAX_CRASHES):
        assert os.WTERMSIG(run_app(folder, crashing_at(1), kind=f"/tmp/.mount_{start}/{name}")) == signal.SIGSEGV
    assert run_app(folder, answer, kind=f"/tmp/.mount_9/{name}") == -1


def test_app_that_is_killed_at_rest_is_never_blamed(folder: Path) -> None:
    """After any number of answers, again and again; nothing is left of it either."""
    for count in range(0, 100, 7):

        def life(attempt: Any, count: int = count) -> None:
            for _ in range(count):
                answer(attempt)
            os.kill(os.getpid(), signal.SIGKILL)

        assert os.WTERMSIG(run_app(folder, life)) == signal.SIGKILL
    assert not AttemptLog(folder, Files()).list_quarantined()
    assert not list(folder.glob("*.crash"))


APP_THAT_ENDS_DURING_A_RUN = """
import sys, threading
from pathlib import Path
from alcove.sdk.load_attempts import AttemptLog
from alcove.sdk.storage import Files

attempt = AttemptLog(Path(sys.argv[1]), Files()).begin(sys.argv[2])
if attempt is None:
    sys.exit(99)
attempt.leave(is_healthy=False)
is_inside = threading.Event()

def run():
    attempt.enter()
    is_inside.set()
    threading.Event().wait()

threading.Thread(target=run, daemon=True).start()
is_inside.wait()
"""


def test_app_that_ends_in_order_during_a_late_run_is_never_blamed(folder: Path) -> None:
    """It gave up on an answer at its deadline and exits at once, at each start: nothing has crashed."""
    for _ in range(MAX_CRASHES + 1):
        command = [sys.executable, "-c", APP_THAT_ENDS_DURING_A_RUN, str(folder), DIGEST]
        assert subprocess.run(command, check=False, timeout=600).returncode == 0
    assert not list(folder.glob("*.crash"))


def test_crash_of_a_forked_child_is_not_the_parents(folder: Path) -> None:
    """The child has the parent's map of the attempt: its writes count nowhere, and the parent continues."""
    attempt = AttemptLog(folder, Files()).begin(DIGEST)
    assert attempt is not None
    attempt.leave(is_healthy=False)
    process = os.fork()
    if process == 0:
        faulthandler.disable()
        crashing_at(1)(attempt)
        os._exit(1)
    assert os.WTERMSIG(os.waitpid(process, 0)[1]) == signal.SIGSEGV
    (path,) = folder.glob("*.running")
    assert path.read_bytes()[0] == 0
    answer(attempt)
    assert path.read_bytes()[8] == 1


def quarantined_of(devices: int, starts: int, in_flight: float, native_s: float, seed: int) -> int:
    """Return how many of the devices blame a good version for crashes within a number of starts.

    Each start is killed at a random moment: with chance `in_flight` in a run, after `native_s` in native code on the
    mean.
    """
    chance = random.Random(seed)
    lost = 0
    for _ in range(devices):
        crashes: list[Crash] = []
        for _ in range(starts):
            if chance.random() >= in_flight:
                crashes.clear()
                continue
            spent = chance.expovariate(1 / native_s) if native_s else 0.0
            crashes = [*crashes, Crash(int(spent * 1e6), int(spent * SECOND_NS))][-MAX_CRASHES_KEPT:]
            if is_crash_loop(crashes):
                lost += 1
                break
    return lost


@pytest.mark.parametrize(
    ("in_flight", "most"), [(0.001, 0), (0.01, 0), (0.02, 2), (0.05, 3), (0.1, 3), (0.3, 3), (0.5, 5), (0.9, 8)]
)
def test_apps_that_are_killed_at_random_moments_keep_their_version(in_flight: float, most: int) -> None:
    """Of 250 devices with a thousand starts of a minute on the mean, with p runs in flight, hardly any loses it."""
    assert quarantined_of(250, 1000, in_flight, 60 * in_flight, 5) <= most


def refused_installations(devices: int, check_s: float, life_s: float, pulse_s: float) -> int:
    """How many devices blame a good version whose check takes so long, in apps that live so long on the mean."""
    chance = random.Random(3)
    lost = 0
    for _ in range(devices):
        crashes: list[Crash] = []
        while (lived_s := chance.expovariate(1 / life_s)) < check_s:
            noted = int(lived_s / pulse_s) * pulse_s
            crashes = [*crashes, Crash(0, 0, int(noted * SECOND_NS))][-MAX_CRASHES_KEPT:]
            if is_crash_loop(crashes):
                lost += 1
                break
    return lost


@pytest.mark.parametrize(
    ("check_s", "life_s", "most"), [(1, 15, 3), (2, 15, 6), (5, 15, 12), (10, 60, 4), (20, 60, 10), (60, 60, 75)]
)
def test_kills_at_random_moments_of_an_installation_blame_few_versions(
    check_s: float, life_s: float, most: int
) -> None:
    """Of 2,000 devices, each tries until its check was left alone, or the version is blamed."""
    assert refused_installations(2000, check_s, life_s, PULSE_S) <= most


def test_without_the_time_in_the_check_several_times_as_many_would_blame_it() -> None:
    """The control of the one above: a pulse that never beats."""
    assert refused_installations(2000, 5, 15, PULSE_S) * 4 < refused_installations(2000, 5, 15, 1e9)


def test_rule_without_the_time_in_native_code_would_lose_versions() -> None:
    """The control of the one above: if every crash weighed 1, kills of a busy app would end every version."""
    assert quarantined_of(100, 1000, 0.5, 0.0, 5) == 100


def test_files_of_crashes_are_bounded(folder: Path) -> None:
    """Kills after ten minutes in native code weigh nothing, and older ones are forgotten."""
    for count in range(MAX_CRASHES_KEPT + 20):
        run_app(folder, crashing_at(2 + count, signal.SIGKILL, native_ns=600 * SECOND_NS // (1 + count)))
    assert len(list(folder.iterdir())) <= MAX_CRASHES_KEPT + 2
