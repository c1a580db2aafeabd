"""Measures how close a sound is to the speech that it should be: SI-SDR, PESQ and STOI."""

import numpy as np
from alcove.features.noise_suppression.config import SAMPLE_RATE
from numpy.typing import NDArray

Sound = NDArray[np.float32]


def si_sdr_db(clean: Sound, heard: Sound) -> float:
    """Return the scale-invariant ratio of signal to distortion, dB.

    Source: J. Le Roux and others, "SDR: half-baked or well done?", ICASSP 2019.
    """
    wanted = clean.astype(np.float64) - np.mean(clean, dtype=np.float64)
    given = heard.astype(np.float64) - np.mean(heard, dtype=np.float64)
    scaled = wanted * (float(given @ wanted) / max(float(wanted @ wanted), 1e-12))
    error = given - scaled
    return float(10 * np.log10(max(float(scaled @ scaled), 1e-12) / max(float(error @ error), 1e-12)))


def perceptual(clean: Sound, heard: Sound) -> tuple[float, float]:
    """Return PESQ (wide band, ITU-T P.862.2: 1 to 4.6) and STOI (0 to 1).

    Raises:
        ModuleNotFoundError: `pesq` or `pystoi` is not installed; says how to.
    """
    try:
        from pesq import pesq  # noqa: PLC0415 - for evaluation  # pyright: ignore[reportMissingImports]
        from pystoi import stoi  # noqa: PLC0415 - for evaluation  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{error.name} is not installed; the evaluation needs: pip install pesq pystoi (pesq needs a C compiler)"
        ) from None
    return float(pesq(SAMPLE_RATE, clean, heard, "wb")), float(stoi(clean, heard, SAMPLE_RATE))
