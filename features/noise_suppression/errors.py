"""Errors of sounds that cannot be read or written."""


class AudioError(ValueError):
    """A sound that cannot be taken, or a file that cannot be read or written as one."""


class AudioFormatError(AudioError):
    """A file that is no WAV, is cut off before its samples begin, or holds samples of a kind that isn't read."""


class SampleRateError(AudioError):
    """A sample rate out of bounds.

    Args:
        rate: samples a second.
        low: least rate that is taken.
        high: greatest rate that is taken.
    """

    def __init__(self, rate: int, low: int, high: int) -> None:
        super().__init__(f"the sample rate must be {low:,} to {high:,} samples a second, not {rate:,}")
        self.rate, self.low, self.high = rate, low, high
