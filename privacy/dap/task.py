"""Defines a task of DAP as each party derives it from the bytes of its configuration: id, VDAF, and privacy.

The bytes are what everybody agrees on: the task's id is their digest, all reports and shares are bound to them, and
they travel in the header DAP-Taskprov. What the draft leaves to deployments, `task_info`, says here what the released
sums cost a device: {"epsilon":"1","task":"<64 hex digits>"}, canonical JSON, the task being that of the policy. With
"issuer", the issuer's address, no report counts without a token that it issued for the task and the window.

Source: draft-ietf-ppm-dap-18, section 4.2 and its appendix of VDAF configurations; draft-ietf-ppm-dap-taskprov.
"""

import hashlib
import hmac
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from alcove.privacy.dap.messages import (
    BatchMode,
    Extension,
    HistogramConfig,
    Interval,
    MultihotCountVecConfig,
    SumConfig,
    SumVecConfig,
    TaskConfiguration,
)
from alcove.privacy.errors import DapMessageError, DapTaskError, ParameterError
from alcove.privacy.limits import MAX_CELLS, MAX_EPSILON, MIN_EPSILON
from alcove.privacy.noise import DiscreteLaplace
from alcove.privacy.prio3 import Circuit, Count, Histogram, MultihotCountVec, Prio3, Sum, SumVec
from alcove.privacy.prio3.native import NativePrio3

VERSION: Final = b"dap-18"
"""Of the protocol, in every domain separation tag."""

VERIFY_KEY_BYTES: Final = 32
"""Size of a VDAF verification key, and of the secret from which all of them are derived."""

TASK_INTERVAL: Final = 1
"""Type of the task extension that bounds a task in time, the one extension of tasks that is known here."""

MAX_CONFIGURATION_BYTES: Final = 4096
"""Largest configuration that is read; ours have some 250 bytes."""

_EPSILON: Final = re.compile(r"[1-9][0-9]{0,5}(/[1-9][0-9]{0,5})?|0")
_POLICY_TASK: Final = re.compile(r"[0-9a-f]{64}")
_ISSUER: Final = re.compile(r"https?://[!-~]{1,120}")


@dataclass(frozen=True)
class TaskInfo:
    """What alcove writes into `task_info`.

    Attributes:
        epsilon: privacy loss of one batch's release, for everybody but one of the aggregators.
        policy_task_id: the task of the policy that this one carries out, 32 bytes.
        token_issuer: address of the issuer of the tokens that reports carry; None: they carry none.
    """

    epsilon: Fraction
    policy_task_id: bytes
    token_issuer: str | None = None

    def to_bytes(self) -> bytes:
        """Return canonical JSON."""
        fields = {"epsilon": str(self.epsilon), "task": self.policy_task_id.hex()}
        if self.token_issuer is not None:
            fields["issuer"] = self.token_issuer
        return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, encoded: bytes) -> "TaskInfo":
        """Return what the bytes say.

        Raises:
            DapTaskError: they are not of this form.
        """
        try:
            fields = json.loads(encoded)
            match fields:
                case {"epsilon": str(epsilon), "task": str(task)} if _EPSILON.fullmatch(
                    epsilon
                ) and _POLICY_TASK.fullmatch(task):
                    info = cls(Fraction(epsilon), bytes.fromhex(task), _read_issuer(fields.get("issuer")))
                    if MIN_EPSILON <= info.epsilon <= MAX_EPSILON and info.to_bytes() == encoded:
                        return info
        except (ValueError, RecursionError):
            pass
        bound = f'{{"epsilon":"1","task":"<64 hex digits>"}} with epsilon in [{MIN_EPSILON}, {MAX_EPSILON}]'
        raise DapTaskError(what="task_info", bound=bound, value=encoded)


def _read_issuer(issuer: object) -> str | None:
    """Return an issuer's address; None of none, and of what `to_bytes` would not write."""
    return issuer if isinstance(issuer, str) and _ISSUER.fullmatch(issuer) else None


@dataclass(frozen=True)
class DapTask:
    """A task; two with the same `task_id` are the same in everything.

    Attributes:
        configuration: as the bytes say.
        encoded: the bytes.
        task_id: their digest, 32 bytes.
        info: what the release costs.
        circuit: what is measured.
        sensitivity: largest change in L1 of the sum when one report is replaced by another, in counts.
        interval: times outside of which the task takes no report; None: no bound.
    """

    configuration: TaskConfiguration
    encoded: bytes
    task_id: bytes
    info: TaskInfo
    circuit: Circuit[Any, Any]
    sensitivity: int
    interval: Interval | None

    @property
    def context(self) -> bytes:
        """The VDAF's context, which binds all that it computes to the task."""
        return VERSION + self.task_id

    @property
    def noise_scale(self) -> Fraction:
        """Scale of the discrete Laplace noise that each aggregator adds to each element of its sum."""
        return self.sensitivity / self.info.epsilon

    def make_vdaf(self, *, is_native: bool = True) -> Prio3[Any, Any]:
        """Return Prio3 of the task's circuit, in the form that is fast or in the one to be read."""
        return NativePrio3(self.circuit) if is_native else Prio3(self.circuit)

    def time_at(self, now_s: float) -> int:
        """Return the time of the task at which a clock shows `now_s`."""
        return math.floor(now_s) // self.configuration.time_precision_s


def make_histogram_task(
    *,
    leader_url: str,
    helper_url: str,
    window_s: int,
    min_batch_size: int,
    cells: int,
    info: TaskInfo,
    interval: Interval | None = None,
) -> DapTask:
    """Return the task of a histogram, a window being the time precision.

    Args:
        leader_url: below which the leader's resources are.
        helper_url: below which the helper's are.
        window_s: seconds of a window.
        min_batch_size: fewest reports that are released together.
        cells: of the histogram.
        info: what a release costs.
        interval: times outside of which there are no reports; None: no bound.

    Raises:
        ParameterError, DapTaskError: an argument is out of its bound.
    """
    extensions = () if interval is None else (Extension(TASK_INTERVAL, interval.to_bytes()),)
    chunk_length = max(1, math.isqrt(cells))
    configuration = TaskConfiguration(
        task_info=info.to_bytes(),
        leader_url=leader_url.encode(),
        helper_url=helper_url.encode(),
        time_precision_s=window_s,
        min_batch_size=min_batch_size,
        batch_mode=BatchMode.TIME_INTERVAL,
        batch_config=b"",
        vdaf_type=Histogram.algorithm_id,
        vdaf_configuration=HistogramConfig(cells, chunk_length).to_bytes(),
        extensions=extensions,
    )
    return read_task(configuration.to_bytes())


def read_task(encoded: bytes) -> DapTask:
    """Return the task that a configuration describes; it promises nothing about its privacy (see `rules`).

    Raises:
        DapMessageError: the bytes are no configuration.
        DapTaskError: it describes a task that is not known here.
    """
    if len(encoded) > MAX_CONFIGURATION_BYTES:
        raise DapTaskError(what="configuration", bound=f"at most {MAX_CONFIGURATION_BYTES} bytes", value=len(encoded))
    configuration = TaskConfiguration.from_bytes(encoded)
    if configuration.batch_mode is not BatchMode.TIME_INTERVAL or configuration.batch_config:
        raise DapTaskError(what="batch mode", bound="time-interval", value=configuration.batch_mode.name)
    for name, least, value in (
        ("time_precision", 1, configuration.time_precision_s),
        ("min_batch_size", 1, configuration.min_batch_size),
    ):
        if value < least:
            raise DapTaskError(what=name, bound=f"at least {least}", value=value)
    circuit, sensitivity = _read_vdaf(configuration)
    task = DapTask(
        configuration=configuration,
        encoded=encoded,
        task_id=derive_task_id(encoded),
        info=TaskInfo.from_bytes(configuration.task_info),
        circuit=circuit,
        sensitivity=sensitivity,
        interval=_read_interval(configuration),
    )
    try:
        DiscreteLaplace(task.noise_scale)
    except ParameterError as error:
        raise DapTaskError(what=f"noise: its {error.name}", bound=error.bound, value=str(error.value)) from None
    return task


def derive_task_id(encoded: bytes) -> bytes:
    """Return the id of the task with a configuration (draft-ietf-ppm-dap-taskprov, section 3.3)."""
    return hashlib.sha256(hashlib.sha256(b"dap-taskprov task id").digest() + encoded).digest()


def derive_verify_key(secret: bytes, task_id: bytes) -> bytes:
    """Return the key with which both aggregators verify a task's reports (draft-ietf-ppm-dap-taskprov, section 3.4).

    Args:
        secret: `VERIFY_KEY_BYTES` bytes that only the two aggregators have.
        task_id: of the task.

    Raises:
        ParameterError: the secret has another size.
    """
    if len(secret) != VERIFY_KEY_BYTES:
        raise ParameterError(name="secret", bound=f"{VERIFY_KEY_BYTES} bytes", value=f"{len(secret)} bytes")
    extracted = hmac.digest(hashlib.sha256(b"dap-taskprov").digest(), secret, "sha256")
    return hmac.digest(extracted, task_id + b"\x01", "sha256")[:VERIFY_KEY_BYTES]  # HKDF-Expand of one block


def _read_vdaf(configuration: TaskConfiguration) -> tuple[Circuit[Any, Any], int]:
    """Return the circuit and its sensitivity."""
    read = _VDAFS.get(configuration.vdaf_type)
    if read is None:
        raise DapTaskError(what="vdaf_type", bound=f"one of {sorted(_VDAFS)}", value=configuration.vdaf_type)
    try:
        circuit, sensitivity = read(configuration.vdaf_configuration)
    except ParameterError as error:
        raise DapTaskError(what=f"vdaf_configuration.{error.name}", bound=error.bound, value=error.value) from None
    if circuit.output_length > MAX_CELLS:
        raise DapTaskError(what="elements of a sum", bound=f"at most {MAX_CELLS}", value=circuit.output_length)
    return circuit, sensitivity


_Vdaf = tuple[Circuit[Any, Any], int]


def _read_count(encoded: bytes) -> _Vdaf:
    if encoded:
        raise DapMessageError("TaskConfiguration", "vdaf_configuration", "Prio3Count has none")
    return Count(), 1


def _read_sum(encoded: bytes) -> _Vdaf:
    config = SumConfig.from_bytes(encoded)
    return Sum(config.max_measurement), config.max_measurement


def _read_sum_vec(encoded: bytes) -> _Vdaf:
    config = SumVecConfig.from_bytes(encoded)
    _check_length(config.length, config.chunk_length)
    circuit = SumVec(config.length, config.max_measurement, config.chunk_length)
    return circuit, config.length * config.max_measurement


def _read_histogram(encoded: bytes) -> _Vdaf:
    config = HistogramConfig.from_bytes(encoded)
    _check_length(config.length, config.chunk_length)
    return Histogram(config.length, config.chunk_length), 2


def _read_multihot(encoded: bytes) -> _Vdaf:
    config = MultihotCountVecConfig.from_bytes(encoded)
    _check_length(config.length, config.chunk_length)
    circuit = MultihotCountVec(config.length, config.max_weight, config.chunk_length)
    return circuit, 2 * config.max_weight


_VDAFS: Final[dict[int, Callable[[bytes], _Vdaf]]] = {
    Count.algorithm_id: _read_count,
    Sum.algorithm_id: _read_sum,
    SumVec.algorithm_id: _read_sum_vec,
    Histogram.algorithm_id: _read_histogram,
    MultihotCountVec.algorithm_id: _read_multihot,
}


def _check_length(length: int, chunk_length: int) -> None:
    """Refuse what would take much memory before a circuit is made of it."""
    for name, value in (("length", length), ("chunk_length", chunk_length)):
        if not 1 <= value <= MAX_CELLS:
            raise DapTaskError(what=f"vdaf_configuration.{name}", bound=f"in [1, {MAX_CELLS}]", value=value)


def _read_interval(configuration: TaskConfiguration) -> Interval | None:
    types = [extension.extension_type for extension in configuration.extensions]
    if any(each != TASK_INTERVAL for each in types) or len(types) > 1:
        raise DapTaskError(what="extensions", bound=f"of type {TASK_INTERVAL}, once", value=types)
    return Interval.from_bytes(configuration.extensions[0].extension_data) if types else None
