"""Runs the committed programs of all features on sample inputs in this process, for `alcove demo --all`."""

from __future__ import annotations

import itertools
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from alcove.features import catalogue
from alcove.platform.cli.demo.actors import load_sentences
from alcove.platform.cli.output import make_table, plain
from alcove.runtime import load

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.console import Console

LANGUAGES: Final = ("de", "fr", "tr", "uk", "hi", "ja", "sw")
"""Whose sentences are shown, where there are some."""
CALL_TICKS: Final = 334
SHOWN_TICKS: Final = 33
"""Two seconds between lines."""
KBPS: Final = 1000
NOISE_SECONDS: Final = 4
BACKGROUND_FRAMES: Final = 8
HALF: Final = 0.5
"""Alpha from which on a pixel counts as cut out."""
HISTORIES: Final[tuple[list[int], ...]] = ([], [1, 2, 3], [2001, 2002, 2003], [1, 2, 3, 2001, 2002, 2003])
"""Ids of films, the latest last."""


@dataclass(frozen=True)
class Shown:
    """A feature's answers.

    Attributes:
        feature: its name.
        version: of the program that answered.
        median_us: of one call, typed answer included.
        columns: names of what a row tells.
        rows: input, what is true where that is known, and the answer, for people.
    """

    feature: str
    version: str
    median_us: float
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def show_all(console: Console) -> list[Shown]:
    """Print and return what every feature that comes with alcove answers."""
    shown = [SHOWS[name](name) for name in sorted(catalogue()) if name in SHOWS]
    for each in shown:
        title = f"{each.feature} {each.version}: {each.median_us:.1f} µs an answer"
        table = make_table(title)
        for column in each.columns:
            table.add_column(plain(column))
        for row in each.rows:
            table.add_row(*map(plain, row))
        console.print(table)
    return shown


def _language_id(name: str) -> Shown:
    """Sentences of Common Voice (CC0), which no version was trained on."""
    feature = catalogue()[name]
    session = load(feature.default_program).session()
    sentences = load_sentences()
    rows, times = [], []
    for language in (known for known in LANGUAGES if known in sentences):
        text = sentences[language][0]
        began_ns = time.perf_counter_ns()
        answer = feature.decode(session(*feature.parse(text.encode())))
        times.append(time.perf_counter_ns() - began_ns)
        ranked = ", ".join(f"{each.language} {each.probability:.0%}" for each in answer.ranked[:2])
        rows.append((text if len(text) <= 60 else text[:59] + "…", language, ranked))
    return _make_section(name, times, ("text", "is", "answer"), rows)


def _bandwidth(name: str) -> Shown:
    """A call over a link whose capacity halves and comes back; the sender has a policy of its own."""
    # With the harness's numpy; the feature itself needs none of it.
    from alcove.features.bandwidth.config import TICK_MS  # noqa: PLC0415
    from alcove.features.bandwidth.harness import step_recording  # noqa: PLC0415
    from alcove.features.bandwidth.observation import observations_of  # noqa: PLC0415

    feature = catalogue()[name]
    session = load(feature.default_program).session()
    recording = step_recording(0.5, 1, seed=5)
    observations = observations_of(recording.statistics, slice(0, CALL_TICKS))[0]
    rows, times = [], []
    for tick, observation in enumerate(np.ascontiguousarray(observations)):
        began_ns = time.perf_counter_ns()
        answer = feature.decode(session(observation[None]))
        times.append(time.perf_counter_ns() - began_ns)
        if tick % SHOWN_TICKS == SHOWN_TICKS - 1:
            truth = f"{recording.capacity_bps[0, tick] / KBPS:,.0f}"
            middle = f"{answer.middle_bps / KBPS:,.0f} ± {answer.std_bps / KBPS:,.0f}"
            rows.append((f"{(tick + 1) * TICK_MS / 1000:.0f} s", truth, f"{answer.capacity_bps / KBPS:,.0f}", middle))
    return _make_section(name, times, ("call", "capacity, kbit/s", "safe to send", "most likely"), rows)


def _feed_ranking(name: str) -> Shown:
    """Made-up histories over the program's films: none, one genre, another one; a thousand candidates for each."""
    feature = catalogue()[name]
    session = load(feature.default_program).session()
    candidates = list(range(1, 1001))
    rows, times = [], []
    for history in HISTORIES:
        line = json.dumps({"history": history, "candidates": candidates, "limit": 5}).encode()
        inputs = feature.parse(line)
        began_ns = time.perf_counter_ns()
        answer = feature.decode(session(*inputs))
        times.append(time.perf_counter_ns() - began_ns)
        first = answer.ranked[0]
        because = ", ".join(str(reason.item) for reason in first.because) or "popular"
        shown = ", ".join(str(entry.item) for entry in answer.ranked)
        rows.append((", ".join(map(str, history)) or "none", shown, because))
    return _make_section(name, times, ("history", "first five of 1,000", "the first because of"), rows)


def _scene_tags(name: str) -> Shown:
    """Pictures drawn by rules, as those of the training data may not be passed on; resizing is part of the time."""
    # With its drawings, which an app has no use for.
    from alcove.features.scene_tags import SceneTags  # noqa: PLC0415
    from alcove.features.scene_tags.drawn import drawings  # noqa: PLC0415

    feature = SceneTags()
    session = load(feature.default_program).session()
    rows, times = [], []
    for drawn, pixels in drawings().items():
        height, width = pixels.shape[:2]
        began_ns = time.perf_counter_ns()
        answer = feature.decode(session(feature.prepare(pixels)))
        times.append(time.perf_counter_ns() - began_ns)
        tags = ", ".join(f"{each.tag} {each.score:.0%}" for each in answer.tags[:3])
        left, top, right, bottom = answer.crop_to(width, height, 9 / 16).pixels(width, height)
        rows.append((drawn, tags, f"{left}, {top} to {right}, {bottom}", answer.mood.name))
    return _make_section(name, times, ("drawn", "tags", "upright crop", "music"), rows)


def _noise_suppression(name: str) -> Shown:
    """Sounds like speech, made by rules, in made noise: how loud what is left is while nobody speaks."""
    from alcove.features.noise_suppression.config import DELAY_SAMPLES, HOP, SAMPLE_RATE  # noqa: PLC0415
    from alcove.features.noise_suppression.made import made_speech  # noqa: PLC0415

    feature = catalogue()[name]
    session = load(feature.default_program).session()
    speech = made_speech(NOISE_SECONDS * SAMPLE_RATE, seed=1)
    rows, times = [], []
    for snr_db in (20, 10, 0):
        noise = np.random.default_rng(snr_db).normal(size=len(speech))
        noise *= np.sqrt(np.mean(speech**2) / np.mean(noise**2)) * 10 ** (-snr_db / 20)
        noisy = (speech + noise).astype(np.float32)
        session.reset()
        answers = []
        for hop in noisy[: len(noisy) // HOP * HOP].reshape(-1, 1, HOP):
            began_ns = time.perf_counter_ns()
            answers.append(feature.decode(session(hop)))
            times.append(time.perf_counter_ns() - began_ns)
        heard = np.concatenate([answer.samples for answer in answers])[DELAY_SAMPLES:]
        before, after = (_ratio_db(speech[: len(heard)], sound[: len(heard)]) for sound in (noisy, heard))
        spoken = np.mean([answer.speech for answer in answers])
        rows.append((f"{snr_db} dB", f"{before:.1f} dB", f"{after:.1f} dB", f"{spoken:.0%}"))
    return _make_section(name, times, ("speech over noise", "SI-SDR before", "after", "speech, mean"), rows)


def _ratio_db(clean: np.ndarray, heard: np.ndarray) -> float:
    scaled = clean * (heard @ clean / (clean @ clean))
    return float(10 * np.log10(scaled @ scaled / ((heard - scaled) @ (heard - scaled))))


def _photo_enhance(name: str) -> Shown:
    """Pictures drawn by rules, as they are and in little light; what they need, and how bright they were made."""
    # With its drawings, which an app has no use for.
    from alcove.features.photo_enhance.drawn import drawings  # noqa: PLC0415
    from alcove.features.photo_enhance.enhance import Enhancer  # noqa: PLC0415

    enhancer = Enhancer()
    rows, times = [], []
    for drawn, pixels in drawings().items():
        began_ns = time.perf_counter_ns()
        answer = enhancer.analyze(pixels)
        changed = enhancer.enhance(pixels, answer=answer)
        times.append(time.perf_counter_ns() - began_ns)
        needs = f"light {answer.low_light:.0%}, colors {answer.retouch:.0%}"
        rows.append((drawn, needs, f"{pixels.mean() / 255:.0%} to {changed.mean() / 255:.0%}"))
    return _make_section(name, times, ("drawn", "needs", "mean brightness"), rows)


def _cutouts(name: str) -> Shown:
    """Pictures drawn by rules, each with its true mask; resizing and soft edges are part of the time."""
    # With its drawings, which an app has no use for.
    from alcove.features.cutouts import Cutouts  # noqa: PLC0415
    from alcove.features.cutouts.drawn import drawings  # noqa: PLC0415
    from alcove.features.cutouts.metrics import iou  # noqa: PLC0415

    feature = Cutouts()
    session = load(feature.default_program).session()
    rows, times = [], []
    for drawn, picture in drawings().items():
        began_ns = time.perf_counter_ns()
        answer = feature.decode(session(*feature.prepare(picture.pixels, picture.taps)))
        alpha = answer.alpha(picture.pixels)
        times.append(time.perf_counter_ns() - began_ns)
        asked = f"{len(picture.taps)} taps" if picture.taps else "what stands out"
        overlap = f"{iou(alpha >= HALF, picture.truth):.2f}"
        rows.append((drawn, asked, f"{answer.share:.1%}", overlap))
    return _make_section(name, times, ("drawn", "asked for", "of the picture", "IoU"), rows)


def _background(name: str) -> Shown:
    """Somebody drawn by rules before a webcam, with the camera's noise: how much alpha flickers, and the true mask."""
    # With its drawings, which an app has no use for.
    from alcove.features.background import BackgroundStream, Blur  # noqa: PLC0415
    from alcove.features.background.drawn import LOOKS, draw_clip  # noqa: PLC0415
    from alcove.features.cutouts.metrics import iou  # noqa: PLC0415

    model = load(catalogue()[name].default_program)
    rows, times = [], []
    for look in LOOKS:
        stream, alphas = BackgroundStream(model, Blur()), []
        clip = draw_clip(look, BACKGROUND_FRAMES)
        for frame in clip:
            began_ns = time.perf_counter_ns()
            stream.show(frame.pixels)
            times.append(time.perf_counter_ns() - began_ns)
            alphas.append(stream.answer.alpha(frame.pixels) / 255 if stream.answer else 0 * frame.truth)
        flicker = np.mean([np.abs(after - before).mean() for before, after in itertools.pairwise(alphas)])
        overlap = f"{iou(alphas[-1] >= HALF, clip[-1].truth):.2f}"
        rows.append((look, f"{(alphas[-1] >= HALF).mean():.1%}", overlap, f"{flicker:.2%}"))
    return _make_section(name, times, ("drawn", "of the frame", "IoU", "change of alpha a frame"), rows)


def _style_transfer(name: str) -> Shown:
    """A picture drawn by rules in each style: its mean color, and how far the slider moves it."""
    # With its drawing, which an app has no use for.
    from alcove.features.photo_enhance.drawn import scene  # noqa: PLC0415
    from alcove.features.style_transfer import STYLES, Look, StyleTransfer  # noqa: PLC0415

    feature = StyleTransfer()
    session = load(feature.default_program).session()
    drawn = scene()
    rows, times = [], []
    for style in STYLES:
        changes = []
        for strength in (HALF, 1.0):
            began_ns = time.perf_counter_ns()
            answer = feature.decode(session(*feature.prepare(drawn, Look(style=style, strength=strength))))
            painted = answer.apply(drawn)
            times.append(time.perf_counter_ns() - began_ns)
            changes.append(float(np.abs(painted.astype(np.float32) - drawn).mean()) / 255)
        colors = f"{answer.red:.0%}, {answer.green:.0%}, {answer.blue:.0%}"
        rows.append((style, colors, f"{changes[0]:.1%}", f"{changes[1]:.1%}"))
    return _make_section(name, times, ("style", "red, green, blue", "change at strength 0.5", "at 1"), rows)


def _make_section(
    name: str, times_ns: Sequence[int], columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]
) -> Shown:
    return Shown(name, catalogue()[name].default_version, float(np.median(times_ns)) / 1000, columns, tuple(rows))


SHOWS: Final[Mapping[str, Callable[[str], Shown]]] = {
    "language_id": _language_id,
    "bandwidth": _bandwidth,
    "feed_ranking": _feed_ranking,
    "noise_suppression": _noise_suppression,
    "scene_tags": _scene_tags,
    "photo_enhance": _photo_enhance,
    "cutouts": _cutouts,
    "background": _background,
    "style_transfer": _style_transfer,
}
