"""Writes the figures of CARD.md and the picture of spectra from what `evaluate` measured.

python -m alcove.features.noise_suppression.card
"""

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from alcove.features.card_figures import replace_figures, table
from alcove.features.noise_suppression.config import DELAY_SAMPLES, HOP, LATENCY_SAMPLES, SAMPLE_RATE, WINDOW
from alcove.features.noise_suppression.contract import NoiseSuppression
from alcove.features.noise_suppression.dataset import mix
from alcove.features.noise_suppression.made import made_speech
from alcove.runtime import load
from numpy.typing import NDArray

Result = Mapping[str, Any]

FOLDER: Final = Path(__file__).parent
OWN: Final = "noise_suppression"
BASELINES: Final = ("GTCRN", "DTLN")
PICTURE: Final = "spectra.svg"
SECONDS: Final = 2
COLUMNS: Final = 62
ROWS: Final = 32
CELL: Final = 5
RANGE_DB: Final = 60.0


def figures(result: Result) -> str:
    """Return all figures of an evaluation."""
    return "\n\n".join([goals(result), by_kind(result)])


def goals(result: Result) -> str:
    """Return the goals, what was measured and the baselines, in one table."""
    own, program = result["systems"][OWN], result["program"]
    others = [result["systems"][name] for name in BASELINES]
    better = max(other["gain_db"] for other in others)
    rows = [
        [
            "**SI-SDR gain (dB)**",
            f"≥ {better + 1:.2f}, 1 above the better",
            *(f"{each['gain_db']:.2f}" for each in (own, *others)),
            _verdict(own["gain_db"] >= better + 1),
        ]
    ]
    rows += [
        [f"at {snr} dB", "", *(f"{each['gain_db_by_snr'][snr]:.2f}" for each in (own, *others)), ""]
        for snr in own["gain_db_by_snr"]
    ]
    noisy = result["systems"]["as it is"]
    for label, key, digits in ((f"PESQ, wide band ({noisy['pesq']:.2f} noisy)", "pesq", 2), ("STOI", "stoi", 3)):
        best = max(other[key] for other in others)
        values = [f"{each[key]:.{digits}f}" for each in (own, *others)]
        name = f"STOI ({noisy['stoi']:.3f} noisy)" if key == "stoi" else label
        rows.append([name, f"> {best:.{digits}f}, the better", *values, _verdict(own[key] > best)])
    clean = [f"{each['clean_si_sdr_db']:.1f}" for each in (own, *others)]
    rows.append(["speech without noise: SI-SDR (dB)", "≥ 25", *clean, _verdict(own["clean_si_sdr_db"] >= 25)])
    worst = [f"{each['clean_si_sdr_db_worst_tenth']:.1f}" for each in (own, *others)]
    rows.append(["the same, worst tenth at most (dB)", "", *worst, ""])
    for label, key in (("limit: a second voice, gain (dB)", "second_voice_gain_db"), ("limit: music", "music_gain_db")):
        rows.append([label, "", *(f"{each[key]:.2f}" for each in (own, *others)), ""])
    speech, silence = (own["activity"][key] for key in ("speech_found", "silence_found"))
    rows.append(["frames of speech found (%)", "", f"{100 * speech:.1f}", "–", "–", ""])
    rows.append(["frames without speech found (%)", "", f"{100 * silence:.1f}", "–", "–", ""])
    factor, size = program["real_time_factor"], program["bytes"]
    rows.append(["real-time factor, one core", "≤ 0.03", f"{factor:.4f}", "–", "–", _verdict(factor <= 0.03)])
    rows.append(["program (bytes)", "≤ 600,000", f"{size:,}", "–", "–", _verdict(size <= 600_000)])
    latency = 1000 * LATENCY_SAMPLES / SAMPLE_RATE
    rows.append(["latency (ms)", "≤ 32", f"{latency:g}", "32", "32", _verdict(latency <= 32)])
    rows.append(["multiply-adds a second (M)", "", "26", "26", "40", ""])
    note = (
        f"{own['mixtures']} mixtures, every development noise at -5, 0, 5 and 10 dB; PESQ and STOI over "
        f"{own['perceptual_mixtures']} of them. A hop takes {program['hop_us']:.0f} µs of its 16,000."
    )
    return "### Goals\n\n" + table(["", "goal", OWN, *BASELINES, ""], rows) + "\n\n" + note


def by_kind(result: Result) -> str:
    """Return the gain for each kind of noise."""
    systems = [result["systems"][name] for name in (OWN, *BASELINES)]
    kinds = sorted(systems[0]["gain_db_by_kind"])
    rows = [[kind, *(f"{each['gain_db_by_kind'][kind]:.2f}" for each in systems)] for kind in kinds]
    return "### SI-SDR gain by noise (dB)\n\n" + table(["noise", OWN, *BASELINES], rows)


def _verdict(is_met: bool) -> str:
    return "met" if is_met else "**not met**"


def loudness(sound: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return how loud a sound is by time and frequency, dB, [rows, columns], the highest frequencies first."""
    frames = np.lib.stride_tricks.sliding_window_view(sound, WINDOW)[:: HOP // 2] * np.hanning(WINDOW)
    power = np.abs(np.fft.rfft(frames)[:, 1:]) ** 2
    power = power[: len(power) // COLUMNS * COLUMNS]
    cells = power.reshape(COLUMNS, -1, ROWS, power.shape[1] // ROWS).mean(axis=(1, 3))
    return np.asarray(10 * np.log10(cells.T[::-1] + 1e-9), np.float64)


def picture() -> str:
    """Return the spectra of made speech in made noise, before and after, as SVG."""
    speech = made_speech(SECONDS * SAMPLE_RATE, seed=2)
    noise = np.random.default_rng(2).normal(size=len(speech)).astype(np.float32)
    noisy = mix(speech, noise, 5.0)
    session = load(NoiseSuppression.default_program).session()
    hops = np.append(noisy, np.zeros(DELAY_SAMPLES, np.float32)).reshape(-1, 1, HOP)
    heard = np.concatenate([session(hop)[0][0].copy() for hop in hops])[DELAY_SAMPLES:]
    parts, wide, high = [], COLUMNS * CELL, ROWS * CELL
    for number, (label, sound) in enumerate((("before", noisy), ("after", heard), ("the speech itself", speech))):
        left = number * (wide + 10)
        parts.append(f'<text x="{left}" y="12" font-family="sans-serif" font-size="12" fill="#808080">{label}</text>')
        shades = np.clip((loudness(sound) + RANGE_DB - 20) / RANGE_DB, 0, 1)
        parts += [_row_of(left, 18 + row * CELL, values) for row, values in enumerate(shades)]
    size = f'width="{3 * wide + 20}" height="{high + 20}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} shape-rendering="crispEdges">{"".join(parts)}</svg>\n'


def _row_of(left: int, top: int, shades: NDArray[np.float64]) -> str:
    """Return a row of cells; neighbours of one shade are one."""
    levels = np.rint(shades * 15).astype(int)
    edges = [0, *(np.flatnonzero(np.diff(levels)) + 1).tolist(), len(levels)]
    cells = []
    for begin, end in itertools.pairwise(edges):
        level = levels[begin]
        colour = f"#{level:x}{max(level - 5, 0):x}{5 if level < 8 else 2:x}"
        place = f'x="{left + begin * CELL}" y="{top}" width="{(end - begin) * CELL}" height="{CELL}"'
        cells.append(f'<rect {place} fill="{colour}"/>')
    return "".join(cells)


def main() -> None:
    """Write the card's figures and its picture."""
    result = json.loads((FOLDER / "evaluation.json").read_text(encoding="utf-8"))
    card = FOLDER / "CARD.md"
    text = replace_figures(card.read_text(encoding="utf-8"), figures(result), writer="card.py")
    card.write_text(text, encoding="utf-8")
    (FOLDER / PICTURE).write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
