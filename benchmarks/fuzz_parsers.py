"""Fuzzes the parsers written in Python: each document is read, or refused with a typed error.

Atheris (libFuzzer for Python) counts the branches of our parsers that a document reaches, and keeps those that reach
new ones in `build/libfuzzer/corpus/parsers`; `documents.change` mutates them, and so does libFuzzer itself.  An input
is one byte that says of which kind the document is, and the document.

`fuzz` runs this module as a process of its own, because the fuzzer ends its process:
`python -m benchmarks.fuzz_parsers MODULE:KINDS CORPUS [LIBFUZZER OPTION ...]`.
"""

from __future__ import annotations

import gc
import importlib
import os
import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Final

from benchmarks.fuzz_native import BUILT, KEPT, ROOT, Outcome, parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.documents import Kind

KINDS: Final = "benchmarks.documents:kinds"
LONGEST_BYTES: Final = 128 << 10
"""Room for what is nested 100,000 deep."""
_INSTRUMENTED: Final = ("alcove.registry", "alcove.privacy", "alcove.runtime.certificate")
_STRUCTURED: Final = 0.7  # part of the mutations that know what a document is


def fuzz(seconds: float, start: int) -> Outcome:
    """Change and read documents until `seconds` have passed or one escaped with an error that is not typed."""
    corpus = BUILT / "corpus" / "parsers"
    for folder in (corpus, KEPT):
        folder.mkdir(parents=True, exist_ok=True)
    before = set(KEPT.iterdir())
    command: list[str | Path] = [sys.executable, "-m", "benchmarks.fuzz_parsers", KINDS, corpus]
    command += [f"-max_total_time={max(1, round(seconds))}", f"-seed={start}", f"-max_len={LONGEST_BYTES}"]
    # A process inherits the peak of the one that starts it, which the limit would count as its own.
    limit_mb = 2048 + resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    command += ["-print_final_stats=1", "-timeout=30", f"-rss_limit_mb={limit_mb}", f"-artifact_prefix={KEPT}/parsers-"]
    search = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(command, capture_output=True, check=False, env={**os.environ, "PYTHONPATH": search})
    output = (done.stderr + done.stdout).decode("utf-8", "replace")
    findings = tuple(sorted(set(KEPT.iterdir()) - before))
    if done.returncode != 0:
        print(output[-4000:], file=sys.stderr)
        findings = findings or (KEPT,)
    return parse("parsers", output, seconds, findings)


def main(arguments: Sequence[str]) -> None:
    """Be the fuzzer; never returns."""
    import atheris

    kinds_at, corpus, *options = arguments
    module, _, function = kinds_at.partition(":")
    with tempfile.TemporaryDirectory() as folder:
        documents = importlib.import_module("benchmarks.documents")
        every: tuple[Kind, ...] = getattr(importlib.import_module(module), function)(Path(folder))
        # Not `instrument_imports`: the loader of an editable install hides the code from it.
        for found in gc.get_objects():
            if isinstance(found, FunctionType) and str(found.__module__).startswith(_INSTRUMENTED):
                atheris.instrument_func(found)
        for number, kind in enumerate(every):
            for place, example in enumerate(kind.examples):
                (Path(corpus) / f"example-{number}-{place}").write_bytes(bytes([number]) + example)

        def read(data: bytes) -> None:
            if data:
                kind = every[data[0] % len(every)]
                try:
                    kind.read(data[1:])
                except documents.TYPED:
                    return
                except Exception:
                    print(f"a document of kind {kind.name} escaped", file=sys.stderr)
                    raise

        def mutate(data: bytes, most: int, seed: int) -> bytes:
            choose = random.Random(seed)
            number = data[0] % len(every) if data else choose.randrange(len(every))
            document = data[1:] or choose.choice(every[number].examples)
            if choose.random() < _STRUCTURED:
                changed: bytes = documents.change(choose, document)
            else:
                changed = atheris.Mutate(document, most - 1)
            return (bytes([number]) + changed)[:most]

        atheris.Setup(["parsers", corpus, *options], read, custom_mutator=mutate)
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
