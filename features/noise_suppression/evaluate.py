r"""Measures the feature and the published networks in one harness: every development noise at four levels.

python -m alcove.features.noise_suppression.evaluate --data ../shared/data/audio_calls \
    --weights ../shared/data/pretrained --cache ~/decoded
python -m alcove.features.noise_suppression.evaluate ... --only GTCRN DTLN    # what is measured stays in the file

Results go to `evaluation.json` beside this file; `card` writes them into CARD.md.
"""

import argparse
import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from alcove.features.noise_suppression.baselines import load_dtln
from alcove.features.noise_suppression.config import DEFAULT_VERSION, DELAY_SAMPLES, HOP, SAMPLE_RATE, SNRS_DB
from alcove.features.noise_suppression.contract import program_path
from alcove.features.noise_suppression.dataset import LONGEST, Clip, Sound, mix, mixtures, read_clips
from alcove.features.noise_suppression.made import chords
from alcove.features.noise_suppression.metrics import perceptual, si_sdr_db
from alcove.features.noise_suppression.mixtures import speaking_frames
from alcove.features.noise_suppression.weights import published_network
from alcove.runtime import load

logger: Final = logging.getLogger("alcove.features.noise_suppression.evaluate")

RESULTS: Final = Path(__file__).parent / "evaluation.json"
OWN: Final = "noise_suppression"
NOISY: Final = "as it is"
VOICE_EVERY: Final = 7
"""Of the mixtures, one in so many has PESQ and STOI measured: 46 of 320."""

System = Callable[[Sound], tuple[Sound, Sound | None]]
"""A noisy sound, samples a multiple of 256, to the clean one and, of ours, the probability of speech by hop."""


def own_system(path: Path) -> System:
    """Return the system that a program is, a session for each sound, its delay taken out."""
    model = load(path)

    def run(sound: Sound) -> tuple[Sound, Sound]:
        session = model.session()
        hops = np.append(sound, np.zeros(DELAY_SAMPLES, np.float32)).reshape(-1, 1, HOP)
        answers = [[part.copy() for part in session(hop)] for hop in hops]
        clean = np.concatenate([part[0][0] for part in answers])[DELAY_SAMPLES:]
        return clean, np.array([part[1][0, 0] for part in answers], np.float32)

    return run


def torch_system(network: torch.nn.Module) -> System:
    """Return the system that a network over whole sounds is."""

    def run(sound: Sound) -> tuple[Sound, None]:
        with torch.inference_mode():
            out = network(torch.from_numpy(sound)[None])
        clean = out[0] if isinstance(out, tuple) else out
        return clean[0].numpy(), None

    return run


def measure_noise(system: System, speech: list[Clip], noise: list[Clip]) -> dict[str, Any]:
    """Return SI-SDR, its gain, PESQ and STOI by level and kind of noise, and how voice activity agrees."""
    rows, voices, spoken = [], [], []
    for number, (kind, snr, clean, noisy) in enumerate(mixtures(speech, noise)):
        heard, probability = system(noisy)
        ratio = si_sdr_db(clean, heard)
        rows.append((kind, snr, ratio, ratio - si_sdr_db(clean, noisy)))
        # Of four levels by turns one in seven: each level about as often.
        if number % VOICE_EVERY == 0:
            voices.append((snr, *perceptual(clean, heard)))
        if probability is not None:
            spoken.append((speaking_frames(clean[None])[0], probability))
    result: dict[str, Any] = {
        "mixtures": len(rows),
        "si_sdr_db": _mean([row[2] for row in rows]),
        "gain_db": _mean([row[3] for row in rows]),
        "gain_db_by_snr": {f"{snr:g}": _mean([row[3] for row in rows if row[1] == snr]) for snr in SNRS_DB},
        "gain_db_by_kind": {
            kind: _mean([row[3] for row in rows if row[0] == kind]) for kind in sorted({row[0] for row in rows})
        },
        "pesq": _mean([voice[1] for voice in voices]),
        "stoi": _mean([voice[2] for voice in voices]),
        "pesq_by_snr": {f"{snr:g}": _mean([voice[1] for voice in voices if voice[0] == snr]) for snr in SNRS_DB},
        "perceptual_mixtures": len(voices),
    }
    if spoken:
        result["activity"] = _activity(*(np.concatenate(part) for part in zip(*spoken, strict=True)))
    return result


def _activity(speaking: Sound, probability: Sound) -> dict[str, float]:
    is_speech, is_called = speaking > 0.5, probability > 0.5
    return {
        "speech_found": float(np.mean(is_called[is_speech])),
        "silence_found": float(np.mean(~is_called[~is_speech])),
        "frames": float(len(speaking)),
    }


def measure_limits(system: System, speech: list[Clip]) -> dict[str, float]:
    """Return what becomes of clean speech, of a second voice and of made music, dB."""
    clean, both, music = [], [], []
    for number, clip in enumerate(speech):
        sound = clip.sound[: min(len(clip.sound) // HOP * HOP, LONGEST)]
        clean.append(si_sdr_db(sound, system(sound)[0]))
        other = speech[(number + len(speech) // 2) % len(speech)].sound
        if number % 3 == 0:
            both.append(_gain(system, sound, mix(sound, other, 0.0)))
            music.append(_gain(system, sound, mix(sound, chords(len(sound), number), 0.0)))
    return {
        "clean_si_sdr_db": _mean(clean),
        "clean_si_sdr_db_worst_tenth": float(np.percentile(clean, 10)),
        "second_voice_gain_db": _mean(both),
        "music_gain_db": _mean(music),
    }


def _gain(system: System, clean: Sound, noisy: Sound) -> float:
    return si_sdr_db(clean, system(noisy)[0]) - si_sdr_db(clean, noisy)


def measure_program(path: Path, seconds: float = 10.0) -> dict[str, float]:
    """Return the program's size and its time a hop on one core."""
    session = load(path).session()
    random = np.random.default_rng(7)
    hops = random.normal(0, 0.1, (int(seconds * SAMPLE_RATE) // HOP, 1, HOP)).astype(np.float32)
    times = []
    for hop in hops:
        began = time.perf_counter_ns()
        session(hop)
        times.append(time.perf_counter_ns() - began)
    median_us = float(np.median(times)) / 1e3
    return {
        "bytes": path.stat().st_size,
        "hop_us": median_us,
        "real_time_factor": median_us / 1e6 * SAMPLE_RATE / HOP,
        "multiply_adds_per_second": 26e6,
    }


def _mean(values: list[float]) -> float:
    return round(float(np.mean(values)), 4)


def main() -> None:
    """Measure the systems that are asked for and write the results beside those that are there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the packed calls")
    parser.add_argument("--weights", type=Path, required=True, help="folder of the published weights")
    parser.add_argument("--cache", type=Path, help="where decoded clips are kept")
    parser.add_argument("--only", nargs="*", choices=[NOISY, "GTCRN", "DTLN", OWN], help="systems; all without it")
    parser.add_argument("--program", type=Path, default=program_path(DEFAULT_VERSION))
    parser.add_argument("--to", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(1)
    systems: dict[str, Callable[[], System]] = {
        NOISY: lambda: lambda sound: (sound, None),
        "GTCRN": lambda: torch_system(published_network(arguments.weights)),
        "DTLN": lambda: torch_system(load_dtln(arguments.weights)),
        OWN: lambda: own_system(arguments.program),
    }
    speech = read_clips(arguments.data, "speech", "dev", arguments.cache)
    noise = read_clips(arguments.data, "noise", "dev", arguments.cache)
    result: dict[str, Any] = {"systems": {}}
    if arguments.to.is_file():
        result = json.loads(arguments.to.read_text(encoding="utf-8"))
    for name in arguments.only or systems:
        system = systems[name]()
        result["systems"][name] = {**measure_noise(system, speech, noise), **measure_limits(system, speech)}
        logger.info("%s: %s", name, json.dumps(result["systems"][name]))
        if name == OWN:
            result["version"], result["program"] = DEFAULT_VERSION, measure_program(arguments.program)
        arguments.to.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
