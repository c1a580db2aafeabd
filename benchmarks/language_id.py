"""Times `language_id` beside torch, over many texts in a loop, and from a cold start to the first answer."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from alcove.features.language_id.build import module_of_program
from alcove.features.language_id.config import CONFIGS
from alcove.features.language_id.contract import SENTENCES, LanguageId, program_path
from alcove.features.language_id.evaluate import texts_of_tsv
from alcove.runtime import Session, load
from alcove.runtime.program import Program

from benchmarks.figures import Figure, median_us

SENTENCE = "Ich habe heute leider keine Zeit, vielleicht morgen."
COLD_RUNS = 9
LOOPS = 20

_COLD = """
import sys, time
from alcove.runtime import load
start_ns = time.perf_counter_ns()
model = load(sys.argv[1])
loaded_ns = time.perf_counter_ns()
model(sys.argv[2])
print(loaded_ns - start_ns, time.perf_counter_ns() - start_ns)
"""


def measure() -> list[Figure]:
    """Return speed and size of the committed versions."""
    torch.set_num_threads(1)
    figures = []
    for version in sorted(version for version in CONFIGS if program_path(version).exists()):
        figures += _speed(version) + _loop(version) + _cold(version)
    return figures


def _loop(version: str) -> list[Figure]:
    """Answer many different texts one after the other, as an app that reads a list of messages would."""
    session = load(program_path(version)).session()
    sentences = [text for _, text in texts_of_tsv(SENTENCES)]
    openings = [" ".join(text.split()[:2]) for text in sentences]
    what = f"language_id {version}"
    figures = []
    for name, texts in (("two words", openings), ("sentences", sentences)):
        best_s = min(_seconds(session, texts) for _ in range(LOOPS))
        length = sum(map(len, texts)) / len(texts)
        note = f"{len(texts)} texts of {length:.0f} characters on average, one core, best of {LOOPS} rounds"
        figures.append(Figure(f"{what}: {name} in a loop", len(texts) / best_s, "texts/s", note))
    return figures


def _seconds(session: Session, texts: list[str]) -> float:
    began_s = time.perf_counter()
    for text in texts:
        session(text)
    return time.perf_counter() - began_s


def _speed(version: str) -> list[Figure]:
    path = program_path(version)
    session = load(path).session()
    feature = LanguageId()
    module = module_of_program(Program(path.read_bytes()), version)
    utf8 = torch.frombuffer(bytearray(SENTENCE.encode()), dtype=torch.uint8)

    def eager() -> object:
        with torch.inference_mode():
            return module(utf8)

    native_us, typed_us, eager_us = median_us(
        [lambda: session(SENTENCE), lambda: feature.decode(session(SENTENCE)), eager]
    )
    what = f"language_id {version}"
    return [
        Figure(f"{what}: native predict, p50", native_us, "µs", f"one sentence of {len(SENTENCE)} characters"),
        Figure(f"{what}: with the typed answer, p50", typed_us, "µs", "decode included"),
        Figure(f"{what}: torch eager, p50", eager_us, "µs", "same module, text and core; text hashed by the same code"),
        Figure(f"{what}: torch eager / native", eager_us / native_us, "×", "interleaved in one run"),
    ]


def _cold(version: str) -> list[Figure]:
    """Load and answer once in fresh processes; files are in the page cache, imports not counted."""
    path = program_path(version)
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        installed = Path(folder) / path.name
        installed.write_bytes(path.read_bytes())
        installed.chmod(0o444)  # as in a device's slot: mapped, not read
        command = [sys.executable, "-c", _COLD, str(installed), SENTENCE]
        for _ in range(COLD_RUNS):
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            runs.append([int(part) / 1000 for part in done.stdout.split()])
    load_us, answer_us = (sorted(column)[COLD_RUNS // 2] for column in zip(*runs, strict=True))
    what = f"language_id {version}"
    return [
        Figure(f"{what}: cold load", load_us, "µs", "open, map, verify; weights are digested at install"),
        Figure(f"{what}: cold load and first answer", answer_us, "µs", "fresh process, imports not counted"),
        Figure(f"{what}: program", path.stat().st_size, "bytes", "as stored and downloaded"),
    ]
