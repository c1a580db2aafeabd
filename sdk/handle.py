"""Answers an app's predictions for one feature, and watches the version that serves them.

    handle ─▶ model_ref ─▶ active (model, version, reason): immutable, replaced as a whole when a sync changes it

A prediction reads the `ModelRef` once and runs what it found to the end: swapping versions never pauses or mixes one.
It opens no connection, and waits for no lock that a sync holds.  A version that was installed is watched
(`load_attempts.py`): two writes to mapped memory at each run, and no other step.

What a version takes is not the app's to know.  Where an installed version does not take what the app passes, the
previous version or the app's own answers in its place, and the version's arm counts a fallback.  Inputs that nothing on
the device takes are the app's mistake: `InputError`.

An app may set a deadline for a feature; its predictions are then run one at a time on a thread of the handle's own
(`deadline.py`).  There is none by default: handing a run over costs more than most runs of small models take.
"""

import logging
import traceback
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, ParamSpec, TypeVar

from alcove.registry.policy.outcome import Outcome
from alcove.runtime.cancellation import Cancellation
from alcove.runtime.clock import Clock
from alcove.runtime.errors import AlcoveRuntimeError, InputError, InvalidTextError, RunCancelledError
from alcove.sdk.answers import NO_CONFIG, STALE, ActiveModel, Answer, AnswerError, Measurement, ModelRef
from alcove.sdk.comparisons import ComparedAnswers, Preferred, preference_value
from alcove.sdk.deadline import DeadlineExceededError, DeadlineRunner
from alcove.sdk.engine import Runnable, call
from alcove.sdk.errors import NoPredictionError, OutOfBoundError
from alcove.sdk.instruments import Recorder
from alcove.sdk.metric_records import MetricRecord, asks_preference, check_name, check_value
from alcove.sdk.ports import Port, arrange_inputs, ports_of

if TYPE_CHECKING:
    from typing import Unpack

    from alcove.features import Framing
    from alcove.sdk.stream import FeatureStream, StreamOptions

P = ParamSpec("P")
F = TypeVar("F")
V = TypeVar("V")
T = TypeVar("T")

__all__ = [
    "NO_CONFIG",
    "STALE",
    "ActiveModel",
    "Answer",
    "AnswerError",
    "FeatureHandle",
    "Inputs",
    "Measurement",
    "ModelRef",
    "StreamingHandle",
    "TypedHandle",
]

_LOG: Final = logging.getLogger(__name__)

_FAULTS = frozenset({AnswerError.RUN_FAILED, AnswerError.DECODE_FAILED, AnswerError.DEADLINE_EXCEEDED})
"""Errors that a version may be at fault for; bad text is the app's, and with no model there is no version."""


class Inputs(NamedTuple):
    """What an app passed to one prediction: by place, and by name."""

    placed: tuple[Any, ...]
    named: Mapping[str, Any]


class FeatureHandle(Generic[T]):
    """A feature of an app, made by `Client.feature`; safe for several threads.

    Args:
        name: the feature's name.
        model_ref: what answers at present.
        decode: makes the value of a program and its outputs.
        clock: measures latency.
        executor: returns where `predict_async` runs.
        record: takes outcomes.
        record_metric: takes records of the app's own metrics.
        note: hears in memory of each answer of a version that is compared: what answered, and its latency.
        closing: stops what runs on the client's threads, and the handle's own.
        watch: called before each prediction with the monotonic clock's reading.
        deadline_s: longest time that a prediction may take, in seconds; None for no such bound.
        stand_ins: gives what may answer in the place of a version that does not take what the app passes.
        recorder: records answers in the app's instruments.
        other_arm: gives the version that people compare with the device's own; None: there is none.
    """

    def __init__(
        self,
        name: str,
        model_ref: ModelRef,
        *,
        decode: Callable[[Runnable, list[Any]], T],
        clock: Clock,
        executor: Callable[[], Executor],
        record: Callable[[Measurement], None],
        record_metric: Callable[[MetricRecord], None],
        note: Callable[[ActiveModel, float], None],
        closing: Cancellation,
        watch: Callable[[int], None],
        deadline_s: float | None = None,
        stand_ins: Callable[[], Iterable[ActiveModel]] = tuple,
        recorder: Recorder | None = None,
        other_arm: Callable[[], ActiveModel | None] = lambda: None,
    ) -> None:
        self.name = name
        self._model_ref = model_ref
        self._decode = decode
        self._clock = clock
        self._executor = executor
        self._record = record
        self._record_metric = record_metric
        self._note = note
        self._closing = closing
        self._watch = watch
        self._deadline_s = deadline_s
        self._stand_ins = stand_ins
        self._recorder = recorder
        self._other_arm = other_arm
        self._compared: tuple[str, ActiveModel] | None = None
        self._logged: set[tuple[str, AnswerError]] = set()
        self._runner = None if deadline_s is None else DeadlineRunner()
        self._last: tuple[Answer[T], ActiveModel] | None = None

    @property
    def version(self) -> str:
        """Return the version that answers at present, or "baseline"."""
        return self._model_ref.active.version

    @property
    def config(self) -> Mapping[str, bool | int | float | str]:
        """Return the values of the parameters of the version that answers at present, by name.

        Empty where the version declares none, and for the app's own model: ask with a default of the app's,
        `handle.config.get("threshold", 0.5)`.  An answer has those of the version that gave it (`Answer.config`).
        """
        return self._model_ref.active.config

    @property
    def inputs(self) -> tuple[Port, ...]:
        """Return what a prediction takes at present, in order; () where nothing could be loaded."""
        model = self._model_ref.active.model
        return () if model is None else ports_of(model.inputs)

    @property
    def outputs(self) -> tuple[Port, ...]:
        """Return what the program that answers at present gives, before a contract decodes it; () as `inputs`."""
        model = self._model_ref.active.model
        return () if model is None else ports_of(model.outputs)

    def __repr__(self) -> str:
        active = self._model_ref.active
        if active.model is None:
            return f"<feature {self.name}: {active.reason}>"
        takes, gives = (", ".join(map(str, ports_of(views))) for views in (active.model.inputs, active.model.outputs))
        return f"<feature {self.name} {active.version} ({active.reason}): {takes} -> {gives}>"

    def predict(self, /, *inputs: Any, **named: Any) -> Answer[T]:
        """Return the answer for one set of inputs; never uses the network.

        Args:
            inputs: one for each input of the feature's signature (`inputs`): text as `str` or UTF-8 `bytes`, else numpy
                arrays, or lists and numbers that are arrays of the input's type without a change of value.
            named: the same by name, for those that `inputs` leaves out.

        Raises:
            InputError: no version on the device takes inputs of this number, name, type or shape.  Bad data, such as
                text that is not UTF-8, is no wrong use: it answers with an error code; nor is a version that takes
                others than the one before: that one, or the app's own, answers.
        """
        # After close() a handle still answers; what it runs on a thread of its own is then stopped by its deadline
        # alone.
        is_stopped = self._runner is None or self._closing.is_cancelled
        return self._predict(Inputs(inputs, named), None if is_stopped else self._closing)

    def stream(self, **options: "Unpack[StreamOptions[T]]") -> "FeatureStream[Any, T]":
        """Return a stream of this feature: frames in, an answer for each, with state between them; see `FeatureStream`.

        A frame is the program's input, or a tuple of its inputs.

        Raises:
            OutOfBoundError: an option is out of its bound.
        """
        from alcove.sdk.stream import FeatureStream  # noqa: PLC0415 - an app without streams loads none of it

        return FeatureStream(self._source(), None, **options)

    def _source(self) -> Any:
        """Return what a stream of this feature needs."""
        from alcove.sdk.stream_frames import StreamSource  # noqa: PLC0415 - as `stream`

        return StreamSource(
            self.name,
            self._model_ref,
            self._clock,
            self._closing,
            decode=self._decode,
            watch=self._watch,
            stand_ins=self._stand_ins,
            settle=self._settle_frame,
            record=self._record,
            record_metric=self._record_metric,
            deadline_s=self._deadline_s,
        )

    def _settle_frame(self, active: ActiveModel, answer: Answer[T], *, is_first_fault: bool) -> None:
        """Note what came of a frame, as `_predict` of a prediction; of faults the first of a session counts."""
        if self._recorder is not None:
            self._recorder.prediction(
                self.name, answer.version, answer.reason, latency_ms=answer.latency_ms, error=answer.error
            )
        if answer.error is None:
            self._last = (answer, active)
            self._model_ref.is_refused = False
            if active.task is not None:
                self._note(active, answer.latency_ms)
        elif is_first_fault and active.task is not None:
            self._measure(active, Outcome.ERROR, 0.0)
        if answer.error in _FAULTS:
            self._log_once(answer)

    def _predict(self, inputs: Inputs, closing: Cancellation | None) -> Answer[T]:
        self._watch(self._clock.monotonic_ns())
        active = self._model_ref.active
        try:
            answer = self._in_time(active, inputs, closing)
        except InputError:
            stood_in = self._stand_in(active, inputs, closing)
            if stood_in is None:
                raise
            active, answer = stood_in
        if self._recorder is not None:
            self._recorder.prediction(
                self.name, answer.version, answer.reason, latency_ms=answer.latency_ms, error=answer.error
            )
        if answer.error is None:
            self._last = (answer, active)
            self._model_ref.is_refused = False
            if active.task is not None:
                self._note(active, answer.latency_ms)
        elif active.task is not None and answer.error in _FAULTS:
            self._measure(active, Outcome.ERROR, 0.0)
        if answer.error in _FAULTS:
            self._log_once(answer)
        return answer

    def _stand_in(
        self, refusing: ActiveModel, inputs: Inputs, closing: Cancellation | None
    ) -> tuple[ActiveModel, Answer[T]] | None:
        """Answer by what takes the inputs in the place of an installed version; None: nothing does."""
        for active in self._stand_ins() if refusing.key else ():
            try:
                answer = self._in_time(active, inputs, closing)
            except InputError:
                active.attempt.abandon()
                continue
            self._model_ref.is_refused = False
            self._model_ref.active = active
            if active.task is not None:
                self._measure(active, Outcome.FALLBACK, 0.0)
            return active, answer
        self._model_ref.is_refused = True
        return None

    def _log_once(self, answer: Answer[T]) -> None:
        """Log how a version fails, once; not an error's text, which could hold what the user wrote."""
        error, cause = answer.error, answer.cause
        if error is None or (answer.version, error) in self._logged:
            return
        self._logged.add((answer.version, error))
        place = ""
        if cause is not None:
            frame = traceback.extract_tb(cause.__traceback__)[-1]
            raised = type(cause).__name__
            place = f": the contract raised {raised} at {frame.filename}:{frame.lineno}; Answer.cause has it"
        _LOG.warning("%s %s gives no answer: %s%s", self.name, answer.version, error, place)

    def _in_time(self, active: ActiveModel, inputs: Inputs, closing: Cancellation | None) -> Answer[T]:
        """Return the answer, or after the deadline one that says so; the late run's own is seen by nobody."""
        if self._runner is None or self._deadline_s is None:
            return self._answer(active, inputs, closing)

        def work(late: Cancellation) -> Answer[T]:
            with nullcontext() if closing is None else closing.over(late):
                return self._answer(active, inputs, late)

        start_ns = self._clock.monotonic_ns()
        try:
            return self._runner.run(work, self._deadline_s)
        except DeadlineExceededError:
            latency_ms = (self._clock.monotonic_ns() - start_ns) / 1e6
            error = AnswerError.DEADLINE_EXCEEDED
            return Answer(None, active.version, active.reason, latency_ms, error, config=active.config)

    def _answer(self, active: ActiveModel, inputs: Inputs, cancellation: Cancellation | None) -> Answer[T]:
        attempt = active.attempt
        value: T | None = None
        error: AnswerError | None = AnswerError.RUN_FAILED
        start_ns = self._clock.monotonic_ns()
        if attempt.is_over:
            value, error, cause = self._run(active, inputs, cancellation)
            taken_ns = self._clock.monotonic_ns() - start_ns
        else:
            attempt.enter()
            try:
                value, error, cause = self._run(active, inputs, cancellation)
            finally:
                taken_ns = self._clock.monotonic_ns() - start_ns
                attempt.leave(is_healthy=error is None, native_ns=taken_ns)
        return Answer(value, active.version, active.reason, taken_ns / 1e6, error, cause, active.config)

    async def predict_async(self, /, *inputs: Any, **named: Any) -> Answer[T]:
        """Return what `predict` returns, computed on another thread.

        Raises:
            InputError: as `predict`.
            ClosedError: the client was closed.
        """
        import asyncio  # noqa: PLC0415 - an app that calls this has loaded it

        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor(), self._predict, Inputs(inputs, named), self._closing)

    def record_outcome(self, accepted: bool, answer: Answer[T] | None = None) -> None:
        """Note on this device how the user took an answer; at most one noised report a window comes of it.

        The device remembers the last ones for experiments that ask what was accepted before (`history.py`).

        Args:
            accepted: True, the user kept the answer, or False.
            answer: which one; the handle's last if omitted.  One with an error, or of a version that no longer
                answers, says nothing about the present version and is left out.

        Raises:
            OutOfBoundError: `accepted` is neither True nor False.
            NoPredictionError: nothing was predicted yet.
        """
        if not _is_boolean(accepted):
            raise OutOfBoundError(name="accepted", bound="True or False", value=accepted)
        last = self._last
        if last is None:
            raise NoPredictionError(feature=self.name)
        active = last[1] if answer is None or answer is last[0] else self._model_ref.active
        chosen = last[0] if answer is None else answer
        if chosen.error is None and chosen.version == active.version:
            self._measure(active, Outcome.ACCEPTED if accepted else Outcome.REFUSED, chosen.latency_ms)

    def compare(self, /, *inputs: Any, **named: Any) -> ComparedAnswers[T] | None:
        """Return the answers of both versions of a comparison by preference, in the order in which to show them.

        The second version is loaded at the first call, beside the first, and stays while both are compared.

        Args:
            inputs: as `predict`.
            named: as `predict`.

        Returns:
            None where the device takes part in no such comparison, or either version cannot run here: show
            `predict`'s answer then, and record no preference.

        Raises:
            InputError: as `predict`, by the version that answers.
        """
        active = self._model_ref.active
        if not asks_preference(active):
            return None
        if self._compared is None or self._compared[0] != active.key:
            other = self._other_arm()
            if other is None:
                return None
            self._compared = active.key, other
        first = self._predict(Inputs(inputs, named), None)
        if self._model_ref.active is not active or first.error is not None:
            return None
        try:
            second = self._answer(self._compared[1], Inputs(inputs, named), None)
        except InputError:  # the other version takes others: it is not compared, and the app did nothing wrong
            return None
        return None if second.error is not None else ComparedAnswers(first, second)

    def record_preference(self, name: str, preferred: Preferred) -> None:
        """Note on this device which of two compared answers a person preferred.

        Of all that are recorded in a window one is drawn evenly, and its cell may become that of one noised report.

        Args:
            name: of a metric of the kind `preference`.
            preferred: "first", "second" or "neither", of the answers as `compare` gave them.

        Raises:
            OutOfBoundError: as `record`, or it is none of the three.
        """
        self.record(name, preference_value(preferred))

    def record(self, name: str, value: float = 1.0) -> None:
        """Note on this device one record of a metric of the app's own (`alcove metric create`).

        Where the device's task asks for the metric, its records of a window are added up here, and the bin of the
        result may become the cell of one noised report.  Any other name is left out; `Client.recorded_metrics` counts
        both.  Safe for several threads; on an event loop it takes as long as `record_outcome`: a small file is written,
        without a wait for the disk.

        Args:
            name: of the metric.
            value: at least 0; of a share True or False; of a count it is not read; of a preference 1, 0 or 1/2, which
                `record_preference` writes.

        Raises:
            OutOfBoundError: the name or the value is none, whatever this device is asked for.
        """
        self._record_metric(MetricRecord(self.name, self._model_ref.active, check_name(name), check_value(value)))

    def _measure(self, active: ActiveModel, outcome: Outcome, latency_ms: float) -> None:
        """Record what came of a prediction; of a device that left its arm's version, only that it did."""
        recorded = (Outcome.FALLBACK, 0.0) if active.has_abandoned_arm else (outcome, latency_ms)
        self._record(Measurement(self.name, active, *recorded))

    def _run(
        self, active: ActiveModel, inputs: Inputs, cancellation: Cancellation | None
    ) -> tuple[T | None, AnswerError | None, Exception | None]:
        if active.model is None:
            return None, AnswerError.STALE if active.reason == STALE else AnswerError.NO_MODEL, None
        try:
            outputs = call(active.model, arrange_inputs(active.model, *inputs), cancellation)
        except RunCancelledError:
            return None, AnswerError.CANCELLED, None
        except InvalidTextError:
            return None, AnswerError.INVALID_TEXT, None
        except InputError:
            raise
        except (AlcoveRuntimeError, MemoryError):
            return None, AnswerError.RUN_FAILED, None
        try:
            return self._decode(active.model, outputs), None, None
        except Exception as error:  # noqa: BLE001 - a contract is the app's code; whatever it raises, the app gets an answer
            return None, AnswerError.DECODE_FAILED, error


def _is_boolean(value: object) -> bool:
    """Tell whether a value is True or False, of Python or of numpy."""
    return isinstance(value, bool) or getattr(value, "dtype", None) == "bool"


class TypedHandle(FeatureHandle[T], Generic[P, T]):
    """A feature whose contract says what it takes: `predict` has the parameters of the contract's `encode`.

    Args:
        arguments: as `FeatureHandle`.
        encode: makes the program's inputs; what it raises, the caller of `predict` gets.
        options: as `FeatureHandle`.
    """

    def __init__(self, *arguments: Any, encode: Callable[P, tuple[Any, ...]], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._encode = encode

    def predict(self, *args: P.args, **kwargs: P.kwargs) -> Answer[T]:
        """Return the answer for one set of inputs; see `FeatureHandle.predict`."""
        return super().predict(*self._encode(*args, **kwargs))

    def compare(self, *args: P.args, **kwargs: P.kwargs) -> ComparedAnswers[T] | None:
        """Return the answers of both versions of a comparison; see `FeatureHandle.compare`."""
        return super().compare(*self._encode(*args, **kwargs))

    async def predict_async(self, *args: P.args, **kwargs: P.kwargs) -> Answer[T]:
        """Return what `predict` returns, computed on another thread; see `FeatureHandle.predict_async`."""
        return await super().predict_async(*self._encode(*args, **kwargs))

    def stream(self, **options: "Unpack[StreamOptions[T]]") -> "FeatureStream[Any, T]":
        """Return a stream, whose frames are what `encode` takes, or a tuple of it; see `FeatureHandle.stream`."""
        from alcove.sdk.stream import FeatureStream  # noqa: PLC0415 - as `FeatureHandle.stream`

        return FeatureStream(self._source(), None, encode=self._encode, **options)


class StreamingHandle(FeatureHandle[T], Generic[F, V, T]):
    """A feature whose contract has a framing of its own: `stream` takes its frames.

    Args:
        arguments: as `FeatureHandle`.
        framing: makes the framing of a new stream.
        options: as `FeatureHandle`.
    """

    def __init__(self, *arguments: Any, framing: "Callable[[], Framing[F, V]]", **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._framing = framing

    def stream(  # type: ignore[override]  # the values of a framing are its own, beside those that `predict` decodes
        self, **options: "Unpack[StreamOptions[V]]"
    ) -> "FeatureStream[F, V]":
        """Return a stream of this feature's own frames; see `FeatureStream`.

        Raises:
            OutOfBoundError: an option is out of its bound.
        """
        from alcove.sdk.stream import FeatureStream  # noqa: PLC0415 - as `FeatureHandle.stream`

        return FeatureStream(self._source(), self._framing(), **options)
