"""What plans take for the noise of reports is the noise that counts of so many reports have."""

from fractions import Fraction

import numpy as np
import pytest
from alcove.platform.stats import IdleReports, Mechanism, aggregate_from_noised_histogram, share_model
from alcove.platform.stats.arm_covariance import ReportModel, ratio_covariance
from alcove.privacy.randomized_response import RandomizedResponse


@pytest.mark.parametrize("idle", [0.0, 0.4, 3.0])
def test_noise_of_devices_that_randomize_for_aggregators_has_their_idle_cell(idle: float) -> None:
    """A million devices of two arms, and others with nothing to tell, who name cells too: the noise of their counts."""
    devices, metric, epsilon, local = 1e6, share_model(0.3), Fraction(1), Fraction(2)
    planned = ratio_covariance(
        (metric, metric), (0.25, 0.75), ReportModel(Mechanism.PRIO3, epsilon, local, idle=idle)
    ).noise(devices, 1)

    true = np.append(np.outer((0.25, 0.75), metric.probabilities.ravel()).ravel(), idle) * devices
    mechanism = RandomizedResponse(true.size, local)
    other, gap = float(mechanism.other_probability), float(mechanism.keep_probability - mechanism.other_probability)
    named = other * true.sum() + gap * true
    aggregate = aggregate_from_noised_histogram(
        named[:-1].reshape(2, 2, 1),
        reports=round(devices),
        epsilon=epsilon,
        local_epsilon=local,
        idle=IdleReports(round(named[-1]), round(true.sum())),
    )
    residuals = np.zeros((2, 4))
    for arm, share in enumerate((0.25, 0.75)):
        residuals[arm, 2 * arm : 2 * arm + 2] = (metric.weights.ravel() - 0.3) / (share * devices)
    assert aggregate.estimates.ravel() == pytest.approx(true[:-1], rel=1e-4)
    assert planned == pytest.approx(residuals @ aggregate.noise_covariance @ residuals.T, rel=1e-3, abs=1e-12)
