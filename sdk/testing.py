"""Provides fakes of the clocks, entropy, network and native runtime, for an app's own tests.

ManualClock        shows what it is set to
SeededEntropy      repeatable "random" bytes
FolderTransport    serves a tree from a folder, remembers requests and reports, and fails on request
FakeEngine         runs `fake_program(...)`: text in, one label out; with sessions for streams
"""

import contextlib
import hashlib
import json
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from alcove.registry.errors import ProgramRefusedError
from alcove.registry.manifest import ModelSignature, PortSignature
from alcove.registry.program_verification import ProgramFacts, ProgramVerifier
from alcove.runtime.errors import InputError, InvalidTextError, ProgramError, RunCancelledError
from alcove.runtime.format.spec import DType
from alcove.runtime.testing_seams import ManualClock
from alcove.sdk.capability import Capability
from alcove.sdk.errors import ResponseTooLargeError, StatusError, TransportError
from alcove.sdk.limits import CHUNK_BYTES
from alcove.sdk.transport import OCTETS, Download, OutboundRequest, Reply, RequestObserver, TrafficStats

__all__ = [
    "FakeEngine",
    "FakeProgram",
    "FakeSession",
    "FolderTransport",
    "ManualClock",
    "SeededEntropy",
    "fake_program",
]

_PADDING_MARK = b"\n"


class SeededEntropy:
    """Repeatable bytes; never for a device."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)  # noqa: S311 - repeatable on purpose

    def random_bytes(self, size_bytes: int) -> bytes:
        """Return the next bytes of the sequence."""
        return self._random.randbytes(size_bytes)


class FolderTransport:
    """A `Transport` that answers from a folder; pass `FolderTransport(folder).connect` as `Client(transport=...)`.

    Attributes:
        folder: holds `metadata/`, `targets/` and `blobs/`.
        requests: every request, in order.
        reports: every body that was posted and accepted.
        fault: called with method and path before each answer; what it raises is the answer.
        truncate_at: if set, each body ends with an error after that many bytes.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.requests: list[OutboundRequest] = []
        self.reports: list[bytes] = []
        self.fault: Callable[[str, str], None] | None = None
        self.truncate_at: int | None = None
        self._server = ""
        self._traffic = TrafficStats()
        self._observer: RequestObserver | None = None

    def connect(self, server: str, traffic: TrafficStats, observer: RequestObserver) -> "FolderTransport":
        """Answer for `server`, count in `traffic` and tell `observer` from now on."""
        self._server = server
        self._traffic, self._observer = traffic, observer
        return self

    @contextlib.contextmanager
    def get(self, path: str, *, max_bytes: int, start: int = 0) -> Iterator[Download]:
        """Answer from the folder; see `Transport.get`."""
        self._note("GET", path, b"")
        file = self.folder / path.lstrip("/")
        if not file.is_file():
            raise StatusError(method="GET", path=path, status=404)
        yield Download(start, self._chunks(path, file.read_bytes(), start, max_bytes))

    def post(self, path: str, body: bytes, content_type: str = OCTETS) -> Reply:
        """Keep `body` if it goes to "/reports"; see `Transport.post`."""
        self._note("POST", path, body, f"Content-Type: {content_type}\r\n")
        if path != "/reports":
            raise StatusError(method="POST", path=path, status=404)
        self.reports.append(body)
        return Reply()

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def _note(self, method: str, path: str, body: bytes, headers: str = "") -> None:
        wire = f"{method} {path} HTTP/1.1\r\n{headers}\r\n".encode() + body
        sent = OutboundRequest(method, path, body, wire, self._server)
        self.requests.append(sent)
        self._traffic.sent_bytes += len(wire)
        if self._observer is not None:
            self._observer(sent)
        if self.fault is not None:
            self.fault(method, path)

    def _chunks(self, path: str, data: bytes, start: int, max_bytes: int) -> Iterator[bytes]:
        end = len(data) if self.truncate_at is None else min(len(data), start + self.truncate_at)
        for offset in range(start, end, CHUNK_BYTES):
            chunk = data[offset : min(offset + CHUNK_BYTES, end)]
            if offset + len(chunk) > max_bytes:
                raise ResponseTooLargeError(path=path, limit_bytes=max_bytes)
            self._traffic.received_bytes += len(chunk)
            yield chunk
        if end < len(data):
            raise TransportError(method="GET", path=path, reason="the connection was closed")


def fake_program(
    label: str,
    *,
    size_bytes: int = 0,
    version: str = "",
    padding: str | None = None,
    inputs: int = 1,
    has_state: bool = False,
) -> bytes:
    """Return a program for `FakeEngine` that answers every text with `label`.

    Args:
        label: the answer.
        size_bytes: least size; padded with repeatable bytes that differ everywhere.
        version: goes into the bytes, so that two programs with one label differ.
        padding: programs with the same one have nearly the same bytes; each its own by default.
        inputs: how many texts it takes.
        has_state: it answers with the label, "#" and how many runs were before in its session: "one#0".
    """
    fields = {"label": label, "version": version} | ({} if inputs == 1 else {"inputs": inputs})
    fields |= {"has_state": True} if has_state else {}
    head = json.dumps(fields, sort_keys=True).encode() + _PADDING_MARK
    seed = label + version if padding is None else padding
    body = head + random.Random(seed).randbytes(max(0, size_bytes - len(head)))  # noqa: S311
    return body + hashlib.sha256(body).digest()


@dataclass(frozen=True, slots=True)
class _FakePort:
    name: str
    dtype: DType
    shape: tuple[int, ...] = ()
    is_ragged: bool = False
    labels: tuple[str, ...] = ()
    dims: tuple[str, ...] = ()


class FakeProgram:
    """What `FakeEngine` runs: one text in (or more), one label out, as an array of text of shape [1, 1]."""

    outputs = (_FakePort("label", DType.I32, (1, 1), labels=("a", "b"), dims=("1", "1")),)

    def __init__(
        self, label: str, inputs: int = 1, *, has_state: bool = False, before_run: "BeforeRun | None" = None
    ) -> None:
        self.label = label
        self.states = ("count",) if has_state else ()
        self._before_run = before_run
        self.inputs = tuple(_FakePort(f"text{number or ''}", DType.TEXT) for number in range(inputs))

    def __call__(self, *inputs: Any) -> list[Any]:
        """Return the label.

        Raises:
            InputError: not as many texts as it takes.
            InvalidTextError: not UTF-8.
        """
        if len(inputs) != len(self.inputs) or not all(isinstance(text, (str, bytes)) for text in inputs):
            due = f"{len(self.inputs)} text is due"
            raise InputError(None, f"{due}, not {[type(value).__name__ for value in inputs]}")
        text = inputs[0]
        try:
            text.encode() if isinstance(text, str) else text.decode()
        except UnicodeError as error:
            raise InvalidTextError("text", getattr(error, "start", 0), str(error)) from error
        return [np.array([[f"{self.label}#0" if self.states else self.label]])]

    def session(self, *, threads: int = 1) -> "FakeSession":
        """Return a new session."""
        return FakeSession(self, self._before_run, threads)


class FakeSession:
    """A session of a fake program, whose state is how many runs it had.

    Attributes:
        program: what it runs.
        count: runs that changed its state.
        threads: how many it was asked to compute with.
        is_stopped: set from `cancel` to `uncancel`; a hook that waits for it is a run that a deadline stops.
    """

    def __init__(self, program: FakeProgram, before_run: "BeforeRun | None", threads: int = 1) -> None:
        self.program = program
        self.threads = threads
        self.count = 0
        self.is_stopped = threading.Event()
        self._before_run = before_run

    def __call__(self, *inputs: Any) -> list[Any]:
        """Return the label, with the count where the program has state.

        Raises:
            RunCancelledError: it was stopped; the count is as before.
            InputError: as `FakeProgram`.
        """
        outputs = self.program(*inputs)
        if self._before_run is not None:
            self._before_run(self, inputs)
        if self.is_stopped.is_set():
            raise RunCancelledError
        if self.program.states:
            outputs = [np.array([[f"{self.program.label}#{self.count}"]])]
        self.count += 1
        return outputs

    def reset(self) -> None:
        """Begin to count anew."""
        self.count = 0

    def cancel(self) -> None:
        """Stop the run at hand, and later ones."""
        self.is_stopped.set()

    def uncancel(self) -> None:
        """Allow runs."""
        self.is_stopped.clear()


BeforeRun: TypeAlias = "Callable[[FakeSession, tuple[Any, ...]], object]"
"""Hears of each run of a session before its state changes."""


class FakeEngine:
    """A runtime for tests.

    Attributes:
        version: what it says its version is.
        capability: what it says the device has; set another to be another device.
        loads: paths that were loaded, in order.
        before_run: called with session and inputs before each run of a session; what it raises, the run raises.
    """

    def __init__(self, version: str = "0.1.0") -> None:
        self.version = version
        self.capability = Capability(isas=("scalar", "avx2"), memory_bytes=2 << 30, cores=2)
        self.loads: list[Path] = []
        self.before_run: BeforeRun | None = None

    @property
    def verifier(self) -> ProgramVerifier:
        """Return what judges fake programs."""
        return _FakeVerifier()

    def load(self, path: Path) -> FakeProgram:
        """Return the program in `path`.

        Raises:
            ProgramError: no fake program, or damaged.
            OSError: the file cannot be read.
        """
        self.loads.append(path)
        head = _fake_head(path.read_bytes())
        return FakeProgram(
            head["label"], head.get("inputs", 1), has_state=head.get("has_state", False), before_run=self._run_begins
        )

    def _run_begins(self, session: FakeSession, inputs: tuple[Any, ...]) -> None:
        if self.before_run is not None:
            self.before_run(session, inputs)


class _FakeVerifier:
    def inspect(self, variant: str, program: bytes) -> ProgramFacts:
        try:
            head = _fake_head(program)
        except ProgramError as error:
            raise ProgramRefusedError(variant, str(error)) from error
        texts = tuple(
            PortSignature(name=f"text{number or ''}", dtype="text", shape=()) for number in range(head.get("inputs", 1))
        )
        label = PortSignature(name="label", dtype="i32", shape=(1, 1), labels=("a", "b"))
        signature = ModelSignature(inputs=texts, outputs=(label,))
        return ProgramFacts(signature, 1024, hashlib.sha256(b"certificate").hexdigest())

    def certify(self, variant: str, program: bytes) -> None:
        self.inspect(variant, program)


def _fake_head(program: bytes) -> Mapping[str, Any]:
    body, digest = program[:-32], program[-32:]
    if hashlib.sha256(body).digest() != digest:
        raise ProgramError("file", None, None, "digest", "this is no fake program, or it is damaged")
    head: Mapping[str, Any] = json.loads(body.partition(_PADDING_MARK)[0])
    return head
