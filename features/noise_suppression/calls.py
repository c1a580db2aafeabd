r"""Measures two programs of the feature on the same calls, for an A/B of them in the simulator.

python -m alcove.features.noise_suppression.calls --data ../shared/data/audio_calls --cache ~/decoded \
    --control gtcrn.alc --to calls.csv
alcove experiment simulate-rating --calls calls.csv

`--weights` builds the control of the published weights of GTCRN instead of `--control`.  A call is a mixture of the
evaluation.  Columns: kind of noise, its level, SI-SDR of what each program gives, dB, and the time of one core that
99 % of its hops stay below, µs: what else runs on the machine does not count.
"""

import argparse
import csv
import time
from pathlib import Path
from typing import Final

import numpy as np
from alcove.features.noise_suppression.build import compile_module
from alcove.features.noise_suppression.config import DEFAULT_VERSION, DELAY_SAMPLES, HOP
from alcove.features.noise_suppression.contract import program_path
from alcove.features.noise_suppression.dataset import Sound, mixtures, read_clips
from alcove.features.noise_suppression.metrics import si_sdr_db
from alcove.features.noise_suppression.streaming import NoiseModule
from alcove.features.noise_suppression.weights import published_network
from alcove.runtime import Model, load

COLUMNS: Final = ("kind", "snr_db", "control_db", "treatment_db", "control_us", "treatment_us")
LATE_PERCENT: Final = 99
"""A call misses its frame budget where more than 1 % of its frames are late."""


def hear(model: Model, noisy: Sound) -> tuple[Sound, float]:
    """Return what a program makes of a sound, its delay taken out, and the time that 99 % of its hops stay below, µs.

    Args:
        model: the program, ready to run; it has a session of its own for this sound.
        noisy: f32 [samples], samples a multiple of 256.
    """
    session = model.session()
    hops = np.append(noisy, np.zeros(DELAY_SAMPLES, np.float32)).reshape(-1, 1, HOP)
    parts, times = [], []
    for hop in hops:
        began = time.thread_time_ns()
        clean = session(hop)[0]
        times.append(time.thread_time_ns() - began)
        parts.append(clean[0].copy())
    return np.concatenate(parts)[DELAY_SAMPLES:], float(np.percentile(times, LATE_PERCENT)) / 1e3


def main() -> None:
    """Measure both programs and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the packed calls")
    parser.add_argument("--cache", type=Path, help="where decoded clips are kept")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--control", type=Path, help="program of the control")
    source.add_argument("--weights", type=Path, help="folder of the published weights, of which the control is built")
    parser.add_argument("--treatment", type=Path, default=program_path(DEFAULT_VERSION))
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "calls.csv")
    arguments = parser.parse_args()
    if arguments.control is None:
        control = load(bytes(compile_module(NoiseModule(published_network(arguments.weights)).eval())))
    else:
        control = load(arguments.control)
    treatment = load(arguments.treatment)
    speech = read_clips(arguments.data, "speech", "dev", arguments.cache)
    noise = read_clips(arguments.data, "noise", "dev", arguments.cache)
    with arguments.to.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for kind, snr, clean, noisy in mixtures(speech, noise):
            heard = [hear(model, noisy) for model in (control, treatment)]
            decibels = [f"{si_sdr_db(clean, sound):.2f}" for sound, _ in heard]
            writer.writerow((kind, f"{snr:g}", *decibels, *(f"{spent:.0f}" for _, spent in heard)))


if __name__ == "__main__":
    main()
