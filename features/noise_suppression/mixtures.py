"""Makes training mixtures by chance: speech in a room, noise of a clip or a made one, levels, pauses, silence."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from alcove.features.noise_suppression.config import HOP, SAMPLE_RATE
from alcove.features.noise_suppression.dataset import Clip, Sound, mix
from alcove.features.noise_suppression.rooms import impulse_response
from numpy.typing import NDArray
from torch import Tensor

ROOMS: Final = 100
CLEAN_SHARE: Final = 0.08
"""Of the mixtures: speech alone, which must stay as it is."""
MADE_SHARE: Final = 0.15
"""Of the noises: white, pink, brown, hum or many voices, not a clip."""
ACTIVE_DB: Final = -30.0
"""A frame speaks where its energy is above this, relative to the loudest frames of its sound."""


@dataclass(frozen=True)
class Batch:
    """Mixtures.

    Attributes:
        noisy: f32 [n, samples].
        clean: the speech in them, with its room, f32 [n, samples].
        speaking: 1 where someone speaks, f32 [n, frames].
    """

    noisy: Tensor
    clean: Tensor
    speaking: Tensor


class Mixer:
    """Draws mixtures of some speech and noise.

    Args:
        speech: clips.
        noise: clips.
        seconds: of a mixture; it becomes a whole number of hops.
        seed: of all chance.
    """

    def __init__(self, speech: list[Clip], noise: list[Clip], seconds: float, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.samples = int(seconds * SAMPLE_RATE) // HOP * HOP
        self.rooms = [impulse_response(self.random) for _ in range(ROOMS)]
        # Of each source as often as of the others, so that many clips of one person don't outweigh many people.
        self.speech = {
            source: [clip for clip in speech if clip.source == source] for source in {clip.source for clip in speech}
        }
        self.sources = sorted(self.speech)
        self.weights = [0.7 if source == "librispeech" else 0.15 for source in self.sources]
        self.noise = noise

    def batch(self, count: int) -> Batch:
        """Return `count` new mixtures."""
        pairs = [self._pair() for _ in range(count)]
        clean = np.stack([speech for _, speech in pairs])
        noisy = np.stack([mixture for mixture, _ in pairs])
        return Batch(torch.from_numpy(noisy), torch.from_numpy(clean), torch.from_numpy(speaking_frames(clean)))

    def _voice(self) -> Sound:
        random = self.random
        source = random.choice(self.sources, p=np.array(self.weights) / sum(self.weights))
        clips = self.speech[source]
        sound = clips[random.integers(len(clips))].sound
        start = int(random.integers(-self.samples // 3, max(len(sound) - self.samples // 2, 1)))
        voice = np.zeros(self.samples, np.float32)
        part = sound[max(start, 0) : start + self.samples]
        place = max(-start, 0)
        voice[place : place + len(part)] = part[: self.samples - place]
        return voice

    def _noise(self) -> Sound:
        random = self.random
        if random.random() < MADE_SHARE:
            return self._synthetic_noise()
        sound = self.noise[random.integers(len(self.noise))].sound
        turned = np.roll(sound, random.integers(len(sound)))
        noise = np.resize(turned, self.samples)
        if random.random() < 0.3:
            noise = self._filter(noise, random.choice([-1, 1]) * random.uniform(0.1, 0.5))
        if random.random() < 0.2:
            noise = noise + self._level(self._noise())
        return self._level(noise)

    def _level(self, sound: Sound) -> Sound:
        return sound / np.float32(np.sqrt(np.mean(sound**2)) + 1e-6)

    def _synthetic_noise(self) -> Sound:
        random = self.random
        kind = random.integers(4)
        if kind == 0:
            return self._level(np.sum([self._level(self._voice()) for _ in range(6)], axis=0).astype(np.float32))
        if kind == 1:
            tone = np.arange(self.samples) * (2 * np.pi * random.uniform(45, 400) / SAMPLE_RATE)
            parts = [np.sin(n * tone + random.uniform(0, 6)) / n ** random.uniform(0.5, 2) for n in range(1, 8)]
            return self._level(np.sum(parts, axis=0).astype(np.float32))
        spectrum = np.fft.rfft(random.normal(size=self.samples))
        spectrum *= np.maximum(np.arange(len(spectrum)), 8.0) ** -random.uniform(0, 1)
        return self._level(np.fft.irfft(spectrum).astype(np.float32))

    def _filter(self, sound: Sound, slope: float) -> Sound:
        spectrum = np.fft.rfft(sound)
        spectrum *= np.maximum(np.arange(len(spectrum)), 32.0) ** slope
        return np.fft.irfft(spectrum).astype(np.float32)

    def _pair(self) -> tuple[Sound, Sound]:
        random = self.random
        voice = self._voice()
        if random.random() < 0.4:
            response = self.rooms[random.integers(len(self.rooms))]
            size = 1 << (len(voice) + len(response)).bit_length()  # a power of 2: five times as fast
            spread = np.fft.irfft(np.fft.rfft(voice, size) * np.fft.rfft(response, size), size)
            voice = spread[: len(voice)].astype(np.float32)
        if random.random() < 0.2:
            voice = self._filter(voice, random.uniform(-0.25, 0.25))
        voice = self._level(voice)
        if random.random() < 0.03:
            voice = np.zeros_like(voice)
        chance = random.random()
        if chance < CLEAN_SHARE:
            mixture = mix(voice, self._noise(), 60.0) if random.random() < 0.3 else voice
        elif np.any(voice):
            mixture = mix(voice, self._noise(), random.uniform(-7, 15))
        else:
            mixture = self._noise()
        # From whispers far off to sounds that nearly clip: the peak, not the mean, bounds what a file can hold.
        peak = np.float32(10 ** (random.uniform(-30, -0.5) / 20) / (np.max(np.abs(mixture)) + 1e-6))
        return mixture * peak, voice * peak


def speaking_frames(clean: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return 1 for each frame of clean sounds in which someone speaks, else 0, f32 [n, frames].

    A frame speaks where its energy is above `ACTIVE_DB` of the sound's loud frames; gaps below 100 ms count as speech.

    Args:
        clean: f32 [n, samples], samples a multiple of 256.
    """
    padded = np.pad(clean, ((0, 0), (HOP, HOP)))
    hops = np.mean(padded.reshape(len(clean), -1, HOP) ** 2, axis=-1)
    energy = (hops[:, 1:] + hops[:, :-1]) / 2
    loud = np.percentile(energy, 95, axis=-1, keepdims=True)
    is_active = (energy > loud * 10 ** (ACTIVE_DB / 10)) & (loud > 1e-9)
    # A gap of at most 6 frames is closed: widened by 3, then narrowed by 3.
    wide = np.pad(is_active, ((0, 0), (6, 6)))
    windows = np.lib.stride_tricks.sliding_window_view
    closed = windows(windows(wide, 7, axis=-1).max(-1), 7, axis=-1).min(-1)
    return np.asarray(closed, np.float32)
