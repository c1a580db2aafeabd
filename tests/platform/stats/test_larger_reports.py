"""What the documents say of few large reports against many small ones, at the same privacy loss in 30 days."""

from fractions import Fraction

import pytest
from alcove.platform.stats import Mechanism
from alcove.platform.stats.arm_covariance import ReportModel, ratio_covariance
from alcove.platform.stats.metric_model import share_model


def variance_of_a_device(rate: float, bins: int, epsilon: int) -> float:
    """The variance of a difference of two equal arms, for each device that spends 8."""
    model = share_model(rate, bins=bins)
    reports = ReportModel(Mechanism.RANDOMIZED_RESPONSE, Fraction(epsilon))
    found = ratio_covariance([model, model], [0.5, 0.5], reports).total(1.0, 8 // epsilon)
    return float(found[0, 0] + found[1, 1] - 2.0 * found[0, 1])


@pytest.mark.parametrize(
    ("rate", "bins", "devices"),
    [
        (0.002, 1, (3.8, 1, 0.17, 0.02)),
        (0.5, 1, (1.6, 1, 0.76, 0.71)),
        (0.002, 8, (6.1, 1, 0.06, 0.002)),
        (0.5, 8, (5.0, 1, 0.18, 0.11)),
    ],
)
def test_fewer_larger_reports_need_the_devices_that_the_documents_say(
    rate: float, bins: int, devices: tuple[float, ...]
) -> None:
    """Devices for the same standard error, relative to four reports at epsilon 2."""
    found = [variance_of_a_device(rate, bins, epsilon) for epsilon in (1, 2, 4, 8)]
    assert [each / found[1] for each in found] == pytest.approx(devices, rel=0.08, abs=0.0006)
