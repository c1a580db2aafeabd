"""Defines the messages of DAP and what they are made of, each with its bytes.

Times and durations are numbers of the task's time precision. Where a message holds another's bytes (shares, proofs,
configurations of a VDAF), they are bytes here too.

Source: draft-ietf-ppm-dap-18, sections 4 and 5; ping-pong messages: draft-irtf-cfrg-vdaf, section 5.7.1.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Final, NamedTuple, Self

from alcove.privacy.errors import DapMessageError
from alcove.privacy.presentation import (
    U8,
    U16,
    U32,
    U64,
    Enumerated,
    Fixed,
    Nested,
    Opaque,
    Reader,
    Rest,
    Structure,
    Vector,
)

REPORT_ID_BYTES: Final = 16
TASK_ID_BYTES: Final = 32
CHECKSUM_BYTES: Final = 32
MEDIA_TYPE: Final = "application/ppm-dap"
"""Of every message, with the parameter `message=`."""

MAX_UPLOAD_REPORTS: Final = 1000
"""Most reports of an upload that are read."""

MAX_JOB_REPORTS: Final = 1024
"""Most reports of an aggregation job that are read, at either aggregator."""

MAX_EXTENSIONS: Final = 16
"""Most extensions of one thing that are read; few are known, and the others are refused anyway."""

ReportId = Annotated[bytes, Fixed(REPORT_ID_BYTES)]
TaskId = Annotated[bytes, Fixed(TASK_ID_BYTES)]
Url = Annotated[bytes, Opaque(2, 1)]


class Role(IntEnum):
    """Who sends or receives an encrypted message."""

    COLLECTOR = 0
    CLIENT = 1
    LEADER = 2
    HELPER = 3


class ReportError(IntEnum):
    """Why a report is left out."""

    BATCH_COLLECTED = 1
    REPORT_REPLAYED = 2
    REPORT_DROPPED = 3
    HPKE_UNKNOWN_CONFIG_ID = 4
    HPKE_DECRYPT_ERROR = 5
    VDAF_VERIFY_ERROR = 6
    TASK_EXPIRED = 7
    INVALID_MESSAGE = 8
    REPORT_TOO_EARLY = 9
    TASK_NOT_STARTED = 10
    OUTDATED_CONFIG = 11


class BatchMode(IntEnum):
    """How reports are put into batches."""

    TIME_INTERVAL = 1
    LEADER_SELECTED = 2


class VerifyRespType(IntEnum):
    """How the helper answers for one report."""

    CONTINUE = 0
    FINISH = 1
    REJECT = 2


# What messages are made of.


class DapStructure(Structure):
    """A structure of DAP."""

    message_error = DapMessageError


@dataclass(frozen=True)
class Interval(DapStructure):
    """From `start` for `duration`, the end excluded."""

    start: Annotated[int, U64]
    duration: Annotated[int, U64]


@dataclass(frozen=True)
class Extension(DapStructure):
    """An extension of a report, a task, an aggregation job or a collection job."""

    extension_type: Annotated[int, U16]
    extension_data: Annotated[bytes, Opaque(2)]


Extensions = Annotated[tuple[Extension, ...], Vector(Extension, 2, most=MAX_EXTENSIONS)]


@dataclass(frozen=True)
class HpkeCiphertext(DapStructure):
    """What is encrypted to the HPKE configuration `config_id`."""

    config_id: Annotated[int, U8]
    encapsulated_key: Annotated[bytes, Opaque(2, 1)]
    payload: Annotated[bytes, Opaque(4, 1)]


@dataclass(frozen=True)
class HpkeConfig(DapStructure):
    """A public key and its algorithms, by the numbers of RFC 9180."""

    config_id: Annotated[int, U8]
    kem_id: Annotated[int, U16]
    kdf_id: Annotated[int, U16]
    aead_id: Annotated[int, U16]
    public_key: Annotated[bytes, Opaque(2, 1)]


@dataclass(frozen=True)
class HpkeConfigList(DapStructure):
    """The HPKE configurations of an aggregator, the preferred first."""

    configs: Annotated[tuple[HpkeConfig, ...], Vector(HpkeConfig, 2, 10)]


@dataclass(frozen=True)
class TaskConfiguration(DapStructure):
    """What every participant of a task must agree on; a part of all associated data."""

    task_info: Annotated[bytes, Opaque(1, 1)]
    leader_url: Url
    helper_url: Url
    time_precision_s: Annotated[int, U64]
    min_batch_size: Annotated[int, U64]
    batch_mode: Annotated[BatchMode, Enumerated(BatchMode)]
    batch_config: Annotated[bytes, Opaque(2)]
    vdaf_type: Annotated[int, U32]
    vdaf_configuration: Annotated[bytes, Opaque(2)]
    extensions: Extensions


@dataclass(frozen=True)
class HistogramConfig(DapStructure):
    """The configuration of Prio3Histogram."""

    length: Annotated[int, U32]
    chunk_length: Annotated[int, U32]


@dataclass(frozen=True)
class SumConfig(DapStructure):
    """The configuration of Prio3Sum."""

    max_measurement: Annotated[int, U64]


@dataclass(frozen=True)
class SumVecConfig(DapStructure):
    """The configuration of Prio3SumVec."""

    length: Annotated[int, U32]
    max_measurement: Annotated[int, U64]
    chunk_length: Annotated[int, U32]


@dataclass(frozen=True)
class MultihotCountVecConfig(DapStructure):
    """The configuration of Prio3MultihotCountVec."""

    length: Annotated[int, U32]
    chunk_length: Annotated[int, U32]
    max_weight: Annotated[int, U64]


# Upload.


@dataclass(frozen=True)
class ReportMetadata(DapStructure):
    """What everybody may know of a report."""

    report_id: ReportId
    time: Annotated[int, U64]
    public_extensions: Extensions


@dataclass(frozen=True)
class Report(DapStructure):
    """A report as the device sends it to the leader."""

    metadata: Annotated[ReportMetadata, Nested(ReportMetadata)]
    public_share: Annotated[bytes, Opaque(4)]
    leader_input_share: Annotated[HpkeCiphertext, Nested(HpkeCiphertext)]
    helper_input_share: Annotated[HpkeCiphertext, Nested(HpkeCiphertext)]


@dataclass(frozen=True)
class UploadRequest(DapStructure):
    """Reports, one after the other (`message=upload-req`)."""

    reports: Annotated[tuple[Report, ...], Rest(Report, MAX_UPLOAD_REPORTS)]


class UploadedReport(NamedTuple):
    """A report with its bytes, parts of which an aggregator passes on or authenticates as they are."""

    report: Report
    encoded: bytes

    @property
    def head(self) -> bytes:
        """Metadata and public share."""
        return self.encoded[: -_sealed_bytes(self.report.leader_input_share) - self.helper_bytes]

    @property
    def helper_bytes(self) -> int:
        """How many bytes at the end are the helper's share."""
        return _sealed_bytes(self.report.helper_input_share)


def _sealed_bytes(sealed: HpkeCiphertext) -> int:
    return 7 + len(sealed.encapsulated_key) + len(sealed.payload)


def split_reports(encoded: bytes, most: int | None = None) -> list[UploadedReport]:
    """Return the reports of an upload request, or of several.

    Args:
        encoded: reports, one after the other.
        most: are read; None: all.

    Raises:
        DapMessageError: the bytes are no reports, or more.
    """
    found: list[UploadedReport] = []
    at = 0
    while at < len(encoded):
        if len(found) == most:
            raise DapMessageError(UploadRequest.__name__, "reports", f"at most {most} are read")
        report, end = _read_plain(encoded, at) or _read_any(encoded, at)
        found.append(UploadedReport(report, encoded[at:end]))
        at = end
    return found


def _read_any(encoded: bytes, at: int) -> tuple[Report, int]:
    reader = Reader(UploadRequest.__name__, encoded[at:], DapMessageError)
    return Report.read_from(reader), at + reader.position


_METADATA: Final = struct.Struct(f">{REPORT_ID_BYTES}sQH")
_SEALED: Final = struct.Struct(">BH")
_SIZE: Final = struct.Struct(">I")


def _read_plain(encoded: bytes, at: int) -> tuple[Report, int] | None:
    """Return a report without extensions, and where it ends; None: it is another, or none.

    It is the form that most have; an aggregator of thousands a second reads it in half the time of the general one.
    """
    try:
        report_id, time, extensions_bytes = _METADATA.unpack_from(encoded, at)
        if extensions_bytes:
            return None
        at += _METADATA.size
        (size,) = _SIZE.unpack_from(encoded, at)
        at += _SIZE.size
        public_share = encoded[at : at + size]
        at += size
        shares: list[HpkeCiphertext] = []
        for _ in range(2):
            config_id, size = _SEALED.unpack_from(encoded, at)
            at += _SEALED.size
            key = encoded[at : at + size]
            at += size
            (size,) = _SIZE.unpack_from(encoded, at)
            at += _SIZE.size
            payload = encoded[at : at + size]
            at += size
            if not key or not payload:
                return None
            shares.append(HpkeCiphertext(config_id, key, payload))
    except struct.error:
        return None
    if at > len(encoded):
        return None
    return Report(ReportMetadata(report_id, time, ()), public_share, *shares), at


@dataclass(frozen=True)
class PlaintextInputShare(DapStructure):
    """What an aggregator decrypts."""

    private_extensions: Extensions
    payload: Annotated[bytes, Opaque(4, 1)]


@dataclass(frozen=True)
class InputShareAad(DapStructure):
    """The associated data of an input share."""

    task_id: TaskId
    task_configuration: Annotated[TaskConfiguration, Nested(TaskConfiguration)]
    metadata: Annotated[ReportMetadata, Nested(ReportMetadata)]
    public_share: Annotated[bytes, Opaque(4)]


@dataclass(frozen=True)
class ReportUploadStatus(DapStructure):
    """Why a report was refused."""

    report_id: ReportId
    error: Annotated[ReportError, Enumerated(ReportError)]


@dataclass(frozen=True)
class UploadErrors(DapStructure):
    """The reports of an upload that were refused (`message=upload-errors`)."""

    status: Annotated[tuple[ReportUploadStatus, ...], Rest(ReportUploadStatus, MAX_UPLOAD_REPORTS)]


# Aggregation.


@dataclass(frozen=True)
class ReportShare(DapStructure):
    """What the leader passes on of a report to the helper."""

    metadata: Annotated[ReportMetadata, Nested(ReportMetadata)]
    public_share: Annotated[bytes, Opaque(4)]
    encrypted_input_share: Annotated[HpkeCiphertext, Nested(HpkeCiphertext)]


@dataclass(frozen=True)
class VerifyInit(DapStructure):
    """A report share with the leader's first ping-pong message."""

    report_share: Annotated[ReportShare, Nested(ReportShare)]
    payload: Annotated[bytes, Opaque(4, 1)]


@dataclass(frozen=True)
class AggregationJobInitReq(DapStructure):
    """The start of an aggregation job (`message=aggregation-job-init-req`)."""

    verification_key_id: Annotated[int, U8]
    agg_param: Annotated[bytes, Opaque(4)]
    extensions: Extensions
    verify_inits: Annotated[tuple[VerifyInit, ...], Rest(VerifyInit, MAX_JOB_REPORTS)]


@dataclass(frozen=True)
class VerifyResp(DapStructure):
    """The helper's answer for one report: a payload to continue with, the end, or why it is rejected.

    Attributes:
        report_id: of the report.
        payload: of CONTINUE; else empty.
        error: of REJECT; else None.
    """

    report_id: bytes
    kind: VerifyRespType
    payload: bytes = b""
    error: ReportError | None = None

    def to_bytes(self) -> bytes:
        """Return the bytes."""
        head = _REPORT_ID.write(self.report_id, "report_id") + _RESP_TYPE.write(self.kind, "kind")
        match self.kind:
            case VerifyRespType.CONTINUE:
                return head + _PAYLOAD.write(self.payload, "payload")
            case VerifyRespType.FINISH:
                return head
            case VerifyRespType.REJECT:
                return head + _ERROR.write(self.error, "error")

    @classmethod
    def read_from(cls, reader: Reader) -> Self:
        """Return the answer that comes next."""
        report_id = _REPORT_ID.read(reader, "report_id")
        kind = VerifyRespType(_RESP_TYPE.read(reader, "kind"))
        match kind:
            case VerifyRespType.CONTINUE:
                return cls(report_id, kind, payload=_PAYLOAD.read(reader, "payload"))
            case VerifyRespType.FINISH:
                return cls(report_id, kind)
            case VerifyRespType.REJECT:
                return cls(report_id, kind, error=ReportError(_ERROR.read(reader, "error")))


_REPORT_ID: Final = Fixed(REPORT_ID_BYTES)
_RESP_TYPE: Final = Enumerated(VerifyRespType)
_PAYLOAD: Final = Opaque(4, 1)
_ERROR: Final = Enumerated(ReportError)


@dataclass(frozen=True)
class AggregationJobResp(DapStructure):
    """The helper's answers, in the order of the request (`message=aggregation-job-resp`)."""

    verify_resps: Annotated[tuple[VerifyResp, ...], Rest(VerifyResp, MAX_JOB_REPORTS)]


@dataclass(frozen=True)
class VerifyContinue(DapStructure):
    """The leader's next ping-pong message for one report; VDAFs of one round, as Prio3, have none."""

    report_id: ReportId
    payload: Annotated[bytes, Opaque(4, 1)]


@dataclass(frozen=True)
class AggregationJobContinueReq(DapStructure):
    """The next step of an aggregation job (`message=aggregation-job-continue-req`)."""

    step: Annotated[int, U16]
    verify_continues: Annotated[tuple[VerifyContinue, ...], Rest(VerifyContinue)]


class PingPongType(IntEnum):
    """The kinds of ping-pong messages."""

    INITIALIZE = 0
    CONTINUE = 1
    FINISH = 2


@dataclass(frozen=True)
class PingPong(DapStructure):
    """What the payloads above hold: the leader's verifier share to begin with, the verifier message to end with.

    Attributes:
        kind: which of the two, or both, there are.
        verifier_message: of CONTINUE and FINISH; else empty.
        verifier_share: of INITIALIZE and CONTINUE; else empty.
    """

    kind: PingPongType
    verifier_message: bytes = b""
    verifier_share: bytes = b""

    def to_bytes(self) -> bytes:
        """Return the bytes."""
        parts = [_PING_PONG_TYPE.write(self.kind, "kind")]
        if self.kind is not PingPongType.INITIALIZE:
            parts.append(_PART.write(self.verifier_message, "verifier_message"))
        if self.kind is not PingPongType.FINISH:
            parts.append(_PART.write(self.verifier_share, "verifier_share"))
        return b"".join(parts)

    @classmethod
    def read_from(cls, reader: Reader) -> Self:
        """Return the message that comes next."""
        kind = PingPongType(_PING_PONG_TYPE.read(reader, "kind"))
        message = _PART.read(reader, "verifier_message") if kind is not PingPongType.INITIALIZE else b""
        share = _PART.read(reader, "verifier_share") if kind is not PingPongType.FINISH else b""
        return cls(kind, message, share)


_PING_PONG_TYPE: Final = Enumerated(PingPongType)
_PART: Final = Opaque(4)


# Collection.


@dataclass(frozen=True)
class Query(DapStructure):
    """Which batch the collector asks for; `config` is an `Interval` where the mode is TIME_INTERVAL, else empty."""

    batch_mode: Annotated[BatchMode, Enumerated(BatchMode)]
    config: Annotated[bytes, Opaque(2)]


@dataclass(frozen=True)
class CollectionJobReq(DapStructure):
    """The start of a collection (`message=collection-job-req`)."""

    query: Annotated[Query, Nested(Query)]
    agg_param: Annotated[bytes, Opaque(4)]
    extensions: Extensions


@dataclass(frozen=True)
class CollectionJobResp(DapStructure):
    """The batch's aggregate shares, encrypted to the collector (`message=collection-job-resp`)."""

    report_count: Annotated[int, U64]
    interval: Annotated[Interval, Nested(Interval)]
    leader_aggregate_share: Annotated[HpkeCiphertext, Nested(HpkeCiphertext)]
    helper_aggregate_share: Annotated[HpkeCiphertext, Nested(HpkeCiphertext)]


@dataclass(frozen=True)
class BatchSelector(DapStructure):
    """Which batch the leader asks the helper for; `config` as in `Query`, or a batch id."""

    batch_mode: Annotated[BatchMode, Enumerated(BatchMode)]
    config: Annotated[bytes, Opaque(2)]


@dataclass(frozen=True)
class AggregateShareReq(DapStructure):
    """The leader's request for the helper's share of a batch (`message=aggregate-share-req`)."""

    collection_job_req: Annotated[CollectionJobReq, Nested(CollectionJobReq)]
    batch_selector: Annotated[BatchSelector, Nested(BatchSelector)]
    report_count: Annotated[int, U64]
    checksum: Annotated[bytes, Fixed(CHECKSUM_BYTES)]


@dataclass(frozen=True)
class AggregateShare(DapStructure):
    """The helper's share of a batch, encrypted to the collector (`message=aggregate-share`)."""

    encrypted_aggregate_share: Annotated[HpkeCiphertext, Nested(HpkeCiphertext)]


@dataclass(frozen=True)
class AggregateShareAad(DapStructure):
    """The associated data of an aggregate share."""

    task_id: TaskId
    task_configuration: Annotated[TaskConfiguration, Nested(TaskConfiguration)]
    collection_job_req: Annotated[CollectionJobReq, Nested(CollectionJobReq)]
