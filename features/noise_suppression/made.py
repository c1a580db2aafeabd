"""Makes sounds by rules, like speech and like music: nobody's recordings, so they may be shown and tested with."""

import numpy as np
from alcove.features.noise_suppression.config import SAMPLE_RATE
from numpy.typing import NDArray


def made_speech(samples: int, seed: int) -> NDArray[np.float32]:
    """Return sounds like speech made by rules, f32 [samples], 16 kHz: voiced syllables with formants, and pauses."""
    random = np.random.default_rng(seed)
    time_s = np.arange(samples) / SAMPLE_RATE
    pitch = 120 + 40 * np.sin(2 * np.pi * 0.7 * time_s + random.uniform(0, 6)) + random.uniform(-30, 60)
    phase = 2 * np.pi * np.cumsum(pitch) / SAMPLE_RATE
    first = 500 + 250 * np.sin(2 * np.pi * 1.9 * time_s + random.uniform(0, 6))
    second = 1500 + 600 * np.sin(2 * np.pi * 1.3 * time_s + random.uniform(0, 6))
    voice = np.zeros(samples)
    for harmonic in range(1, 30):
        low, high = (harmonic * pitch - first) / 200, (harmonic * pitch - second) / 300
        near = np.exp(-(low**2)) + 0.5 * np.exp(-(high**2))
        voice += (near + 0.02) * np.sin(harmonic * phase)
    syllables = np.clip(np.sin(2 * np.pi * 2.3 * time_s + random.uniform(0, 6)) + 0.3, 0, 1)
    voice *= syllables
    return np.asarray(0.2 * voice / max(float(np.max(np.abs(voice))), 1e-6), np.float32)


def chords(samples: int, seed: int) -> NDArray[np.float32]:
    """Return made music, f32 [samples]: plucked chords, two a second."""
    random = np.random.default_rng(seed)
    time_s = np.arange(SAMPLE_RATE // 2) / SAMPLE_RATE
    bars = []
    for _ in range(samples // len(time_s) + 1):
        root = 110 * 2 ** (random.integers(0, 12) / 12)
        tones = [root * ratio * n for ratio in (1, 5 / 4, 3 / 2, 2) for n in range(1, 6)]
        waves = [np.sin(2 * np.pi * tone * time_s) / (tone / root) for tone in tones]
        bars.append(np.sum(waves, axis=0) * np.exp(-4 * time_s))
    return np.concatenate(bars)[:samples].astype(np.float32)
