"""Comparisons of two versions by a person: which answers come first, and what becomes of the choice."""

from collections import Counter
from typing import Any

import pytest
from alcove.registry.policy.metric import MetricKind, MetricTerms
from alcove.runtime.errors import InputError
from alcove.sdk import OutOfBoundError
from alcove.sdk.report_files import PendingOutcome
from alcove.sdk.testing import SeededEntropy

from tests.registry.test_metric_terms import make_metric_task
from tests.sdk.conftest import FEATURE, Device
from tests.sdk.test_metric_records import SHARE, bins, enroll

PREFERRED = MetricTerms(name="preferred", version=1, kind=MetricKind.PREFERENCE)


@pytest.mark.parametrize(("arm", "versions"), [(0, ("1.0.0", "2.0.0")), (1, ("2.0.0", "1.0.0"))])
def test_the_version_of_the_devices_own_arm_is_shown_first(device: Device, arm: int, versions: tuple[str, str]) -> None:
    """Arms are the order: every device answers by both versions, each with its own, and neither tells its arm."""
    handle = enroll(device, PREFERRED, arm).feature(FEATURE)
    for _ in range(2):
        compared = handle.compare("hi")
        assert compared is not None
        assert (compared.first.version, compared.second.version) == versions
        assert compared.first.value != compared.second.value
    assert handle.version == versions[0]


@pytest.mark.parametrize("metric", [None, SHARE], ids=["outcomes", "share"])
def test_a_device_that_is_asked_for_no_preference_compares_nothing(device: Device, metric: MetricTerms | None) -> None:
    """The app then shows its usual answer, and has nothing to ask the person."""
    assert enroll(device, metric).feature(FEATURE).compare("hi") is None


def test_a_device_without_the_other_version_compares_nothing(device: Device) -> None:
    """The other arm's program is gone from the disk: no answer is worse than an app that fails."""
    handle = enroll(device, PREFERRED, 1).feature(FEATURE)
    (program,) = (device.folder / "versions" / FEATURE).glob(f"{device.world.ref('1.0.0').manifest_sha256}/program.alc")
    program.unlink()
    assert handle.compare("hi") is None
    assert handle.predict("hi").error is None


def test_what_no_version_takes_is_the_apps_mistake(device: Device) -> None:
    """As in a prediction."""
    with pytest.raises(InputError):
        enroll(device, PREFERRED).feature(FEATURE).compare("hi", "there")


@pytest.mark.parametrize(("preferred", "expected"), [("second", 1), ("neither", 2), ("first", 3)])
def test_a_choice_is_a_cell_of_the_devices_own_arm(device: Device, preferred: Any, expected: int) -> None:
    """Bins: nothing compared, the second, neither, the first."""
    handle = enroll(device, PREFERRED).feature(FEATURE)
    handle.predict("hi")
    handle.record_preference("preferred", preferred)
    assert bins(device) == [(1, expected)]


@pytest.mark.parametrize("place", range(4))
def test_one_of_a_windows_choices_is_drawn_evenly(place: int) -> None:
    """Of one first and three seconds a quarter of the windows keeps the first, wherever it stood."""
    task, entropy = make_metric_task(PREFERRED), SeededEntropy(place)
    kept: Counter[int] = Counter()
    for _ in range(2000):
        window = PendingOutcome.of_metric(task, 0, 1)
        assert all(window.add_record(float(number == place), entropy) for number in range(4))
        assert window.is_sound
        kept[window.cell] += 1
    assert set(kept) == {task.metric_cell(1, 4, 0.0), task.metric_cell(1, 4, 1.0)}
    assert 420 <= kept[task.metric_cell(1, 4, 1.0)] <= 580  # 500 expected, standard deviation 19


@pytest.mark.parametrize("preferred", ["left", "", None, 1, True])
def test_a_choice_that_is_none_is_an_error_on_every_device(device: Device, preferred: Any) -> None:
    """In a comparison or not."""
    handle = enroll(device, None).feature(FEATURE)
    with pytest.raises(OutOfBoundError, match="first, second or neither"):
        handle.record_preference("preferred", preferred)


def test_a_number_between_the_choices_is_counted_as_unfit(device: Device) -> None:
    """`record` with a value that is no choice reaches no report."""
    client = enroll(device, PREFERRED)
    client.feature(FEATURE).record("preferred", 0.25)
    (seen,) = client.recorded_metrics()
    assert (seen.kept, seen.unfit) == (0, 1)
