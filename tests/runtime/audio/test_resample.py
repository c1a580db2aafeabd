"""Another rate keeps what it can hold and suppresses aliases, and a stream gives the numbers of the whole signal."""

import math

import numpy as np
import pytest
import torch
from alcove.runtime.audio import Resample
from torch import Tensor

from tests.runtime.audio.streams import hops, run_session

RATES = [48_000, 44_100, 32_000, 24_000, 8_000]
PAIRS = [(rate, 16_000) for rate in RATES] + [(16_000, rate) for rate in RATES]


def tone(hertz: float, rate: int, seconds: float = 0.25) -> Tensor:
    """f32 [1, samples]."""
    return torch.sin(2 * math.pi * hertz * torch.arange(round(rate * seconds), dtype=torch.float64) / rate).float()[
        None
    ]


def middle(signal: Tensor) -> Tensor:
    """What no end reaches."""
    cut = signal.shape[-1] // 4
    return signal[..., cut:-cut].double()


@pytest.mark.parametrize(("from_rate", "to_rate"), PAIRS)
@pytest.mark.parametrize("share", [0.02, 0.5, 0.84])
def test_a_tone_that_both_rates_hold_is_the_same_tone(from_rate: int, to_rate: int, share: float) -> None:
    """Within 0.1 % of its amplitude at every sample, so phase and place are right too."""
    hertz = share * min(from_rate, to_rate) / 2
    found = Resample(from_rate, to_rate).whole(tone(hertz, from_rate))
    wanted = tone(hertz, to_rate)
    assert found.shape == wanted.shape
    torch.testing.assert_close(middle(found), middle(wanted), atol=1e-3, rtol=0)


@pytest.mark.parametrize(("from_rate", "to_rate"), [pair for pair in PAIRS if pair[0] > pair[1]])
def test_a_tone_above_half_the_lower_rate_is_eighty_decibels_down(from_rate: int, to_rate: int) -> None:
    """Aliases would be tones where there were none: the root of their mean square, from 1 % above on."""
    module = Resample(from_rate, to_rate)
    for hertz in np.linspace(1.01 * to_rate / 2, 0.999 * from_rate / 2, 7):
        power = float(middle(module.whole(tone(hertz, from_rate))).square().mean())
        assert 10 * math.log10(2 * power + 1e-20) < -80


@pytest.mark.parametrize(("from_rate", "to_rate"), [pair for pair in PAIRS if pair[0] < pair[1]])
def test_images_of_a_tone_are_eighty_decibels_down(from_rate: int, to_rate: int) -> None:
    """What is in the new signal besides the tone, which is taken out by least squares."""
    hertz = 0.6 * from_rate / 2
    found = middle(Resample(from_rate, to_rate).whole(tone(hertz, from_rate)))[0]
    angles = 2 * math.pi * hertz / to_rate * torch.arange(len(found), dtype=torch.float64)
    basis = torch.stack([angles.cos(), angles.sin()], 1)
    rest = found - basis @ torch.linalg.lstsq(basis, found[:, None]).solution[:, 0]
    assert 10 * math.log10(2 * float(rest.square().mean())) < -80


@pytest.mark.parametrize(("from_rate", "to_rate"), [(16_000, 48_000), (44_100, 16_000)])
def test_a_stream_gives_the_numbers_of_the_whole_signal_later(from_rate: int, to_rate: int) -> None:
    """In a program's session, hops of 10 ms; `delay` samples of the new rate behind, and nothing before."""
    torch.manual_seed(0)
    hop = from_rate // 100
    module = Resample(from_rate, to_rate)
    signal = torch.randn(1, 8 * hop)
    found = torch.cat(run_session(module, hops(signal, hop)), -1)
    wanted = module.whole(signal)
    torch.testing.assert_close(found[:, module.delay :], wanted[:, : -module.delay], atol=1e-6, rtol=1e-5)
    # What lies before the first sample is only the filter's own tail of it.
    assert found.shape == wanted.shape
    assert found[:, : module.delay // 2].abs().max() < 0.2


def test_streams_side_by_side_are_those_alone() -> None:
    """Two channels, in eager mode, after a reset."""
    torch.manual_seed(0)
    both, one = Resample(48_000, 16_000, channels=2), Resample(48_000, 16_000)
    signal = torch.randn(2, 960)
    both(signal)
    both.reset()
    torch.testing.assert_close(both(signal)[1:], one(signal[1:]))
    torch.testing.assert_close(both.whole(signal.reshape(2, 1, 960))[1], one.whole(signal[1:]))


def test_no_change_of_rate_changes_nothing_but_what_the_filter_stops() -> None:
    """Factors of one: a low tone comes out as it went in."""
    signal = tone(440, 16_000)
    torch.testing.assert_close(middle(Resample(16_000, 16_000).whole(signal)), middle(signal), atol=1e-3, rtol=0)


def test_rates_and_hops_that_cannot_be_are_refused() -> None:
    """The message names the bound and the value."""
    with pytest.raises(ValueError, match="rates must be at least 1, not 0"):
        Resample(0, 16_000)
    with pytest.raises(ValueError, match="at most 1024, 44099 to 16000 is 16000/44099"):
        Resample(44_099, 16_000)
    with pytest.raises(ValueError, match=r"half_width must be at least 8.*not 4"):
        Resample(48_000, 16_000, half_width=4)
    with pytest.raises(ValueError, match="multiple of 441 samples, not 512"):
        Resample(44_100, 16_000)(torch.zeros(1, 512))
