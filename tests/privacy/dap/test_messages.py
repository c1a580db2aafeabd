"""Every message of DAP has the bytes that the draft's structures give by hand, and no other bytes are read as one."""

from typing import Any

import hypothesis.strategies as st
import pytest
from alcove.privacy.dap import messages
from alcove.privacy.dap.messages import (
    AggregateShare,
    AggregateShareAad,
    AggregateShareReq,
    AggregationJobContinueReq,
    AggregationJobInitReq,
    AggregationJobResp,
    BatchMode,
    BatchSelector,
    CollectionJobReq,
    CollectionJobResp,
    Extension,
    HistogramConfig,
    HpkeCiphertext,
    HpkeConfig,
    HpkeConfigList,
    InputShareAad,
    Interval,
    MultihotCountVecConfig,
    PingPong,
    PingPongType,
    PlaintextInputShare,
    Query,
    Report,
    ReportError,
    ReportMetadata,
    ReportShare,
    ReportUploadStatus,
    SumConfig,
    SumVecConfig,
    TaskConfiguration,
    UploadErrors,
    UploadRequest,
    VerifyContinue,
    VerifyInit,
    VerifyResp,
    VerifyRespType,
    split_reports,
)
from alcove.privacy.errors import DapMessageError, ParameterError
from alcove.privacy.presentation import Structure
from hypothesis import given

# Pieces, each with its bytes written by hand from the draft's structures: numbers big-endian, lengths in front.
ID, ID_HEX = bytes(range(16)), "000102030405060708090a0b0c0d0e0f"
TASK, TASK_HEX = b"\x11" * 32, "11" * 32
INTERVAL, INTERVAL_HEX = Interval(1659544, 2), "000000000019529800000000000000" + "02"
EXTENSION, EXTENSION_HEX = Extension(0xFF01, b"ab"), "ff01" + "0002" + "6162"
CIPHERTEXT, CIPHERTEXT_HEX = HpkeCiphertext(7, b"key", b"text"), "07" + "0003" + "6b6579" + "00000004" + "74657874"
OTHER, OTHER_HEX = HpkeCiphertext(8, b"k", b"t"), "08" + "0001" + "6b" + "00000001" + "74"
CONFIG = HpkeConfig(3, 0x20, 1, 1, b"\x55" * 32)
CONFIG_HEX = "03" + "0020" + "0001" + "0001" + "0020" + "55" * 32
METADATA = ReportMetadata(ID, 258, (EXTENSION,))
METADATA_HEX = ID_HEX + "0000000000000102" + "0006" + EXTENSION_HEX
CONFIGURATION = TaskConfiguration(
    task_info=b"t",
    leader_url=b"https://l",
    helper_url=b"https://h/",
    time_precision_s=86400,
    min_batch_size=1000,
    batch_mode=BatchMode.TIME_INTERVAL,
    batch_config=b"",
    vdaf_type=4,
    vdaf_configuration=HistogramConfig(64, 8).to_bytes(),
    extensions=(Extension(1, INTERVAL.to_bytes()),),
)
CONFIGURATION_HEX = (
    "01" + "74"
    "0009" + b"https://l".hex() + "000a" + b"https://h/".hex() + "0000000000015180"
    "00000000000003e8"
    "01"
    "0000"
    "00000004"
    "0008" + "00000040" + "00000008"
    "0014" + "0001" + "0010" + INTERVAL_HEX
)  # fmt: skip
QUERY_HEX = "01" + "0010" + INTERVAL_HEX
COLLECTION = CollectionJobReq(Query(BatchMode.TIME_INTERVAL, INTERVAL.to_bytes()), b"", ())
COLLECTION_HEX = QUERY_HEX + "00000000" + "0000"
SHARE = ReportShare(METADATA, b"public", CIPHERTEXT)
SHARE_HEX = METADATA_HEX + "00000006" + b"public".hex() + CIPHERTEXT_HEX
REPORT = Report(METADATA, b"public", CIPHERTEXT, OTHER)
REPORT_HEX = METADATA_HEX + "00000006" + b"public".hex() + CIPHERTEXT_HEX + OTHER_HEX

CASES: list[tuple[Structure, str]] = [
    (INTERVAL, INTERVAL_HEX),
    (EXTENSION, EXTENSION_HEX),
    (CIPHERTEXT, CIPHERTEXT_HEX),
    (CONFIG, CONFIG_HEX),
    (HpkeConfigList((CONFIG, CONFIG)), f"{82:04x}" + CONFIG_HEX + CONFIG_HEX),
    (CONFIGURATION, CONFIGURATION_HEX),
    (HistogramConfig(64, 8), "00000040" + "00000008"),
    (SumConfig(255), "00000000000000ff"),
    (SumVecConfig(10, 255, 9), "0000000a" + "00000000000000ff" + "00000009"),
    (MultihotCountVecConfig(10, 3, 2), "0000000a" + "00000003" + "0000000000000002"),
    (METADATA, METADATA_HEX),
    (REPORT, REPORT_HEX),
    (UploadRequest((REPORT, REPORT)), REPORT_HEX + REPORT_HEX),
    (PlaintextInputShare((EXTENSION,), b"share"), "0006" + EXTENSION_HEX + "00000005" + b"share".hex()),
    (
        InputShareAad(TASK, CONFIGURATION, METADATA, b"public"),
        TASK_HEX + CONFIGURATION_HEX + METADATA_HEX + "00000006" + b"public".hex(),
    ),
    (ReportUploadStatus(ID, ReportError.REPORT_TOO_EARLY), ID_HEX + "09"),
    (UploadErrors((ReportUploadStatus(ID, ReportError.OUTDATED_CONFIG),)), ID_HEX + "0b"),
    (SHARE, SHARE_HEX),
    (VerifyInit(SHARE, b"ping"), SHARE_HEX + "00000004" + b"ping".hex()),
    (
        AggregationJobInitReq(1, b"", (EXTENSION,), (VerifyInit(SHARE, b"p"),)),
        "01" + "00000000" + "0006" + EXTENSION_HEX + SHARE_HEX + "00000001" + "70",
    ),
    (VerifyResp(ID, VerifyRespType.CONTINUE, payload=b"pong"), ID_HEX + "00" + "00000004" + b"pong".hex()),
    (VerifyResp(ID, VerifyRespType.FINISH), ID_HEX + "01"),
    (VerifyResp(ID, VerifyRespType.REJECT, error=ReportError.VDAF_VERIFY_ERROR), ID_HEX + "02" + "06"),
    (
        AggregationJobResp((VerifyResp(ID, VerifyRespType.FINISH), VerifyResp(ID, VerifyRespType.FINISH))),
        (ID_HEX + "01") * 2,
    ),
    (VerifyContinue(ID, b"p"), ID_HEX + "00000001" + "70"),
    (AggregationJobContinueReq(2, (VerifyContinue(ID, b"p"),)), "0002" + ID_HEX + "00000001" + "70"),
    (PingPong(PingPongType.INITIALIZE, verifier_share=b"s"), "00" + "00000001" + "73"),
    (PingPong(PingPongType.CONTINUE, b"m", b"s"), "01" + "00000001" + "6d" + "00000001" + "73"),
    (PingPong(PingPongType.FINISH, b"m"), "02" + "00000001" + "6d"),
    (COLLECTION.query, QUERY_HEX),
    (COLLECTION, COLLECTION_HEX),
    (
        CollectionJobResp(1000, INTERVAL, CIPHERTEXT, OTHER),
        "00000000000003e8" + INTERVAL_HEX + CIPHERTEXT_HEX + OTHER_HEX,
    ),
    (BatchSelector(BatchMode.LEADER_SELECTED, b"\x22" * 32), "02" + "0020" + "22" * 32),
    (
        AggregateShareReq(COLLECTION, BatchSelector(BatchMode.TIME_INTERVAL, b""), 1000, b"\x33" * 32),
        COLLECTION_HEX + "01" + "0000" + "00000000000003e8" + "33" * 32,
    ),
    (AggregateShare(CIPHERTEXT), CIPHERTEXT_HEX),
    (AggregateShareAad(TASK, CONFIGURATION, COLLECTION), TASK_HEX + CONFIGURATION_HEX + COLLECTION_HEX),
]
REPEATED = {UploadRequest, UploadErrors, AggregationJobInitReq, AggregationJobResp, AggregationJobContinueReq}
"""Their ends are the message's: cut between two parts they are messages still."""


@pytest.mark.parametrize(("message", "encoded"), CASES, ids=lambda case: type(case).__name__ if case else "")
def test_message_has_the_bytes_derived_by_hand(message: Structure, encoded: str) -> None:
    """There and back."""
    assert message.to_bytes().hex() == encoded
    assert type(message).from_bytes(bytes.fromhex(encoded)) == message


def test_every_message_has_its_bytes_here() -> None:
    """No structure of the module is left out."""
    defined = {each for each in vars(messages).values() if isinstance(each, type) and issubclass(each, Structure)}
    assert defined - {Structure, messages.DapStructure} == {type(message) for message, _ in CASES}


@pytest.mark.parametrize(("message", "encoded"), CASES, ids=lambda case: type(case).__name__ if case else "")
def test_message_that_is_cut_or_longer_is_refused(message: Structure, encoded: str) -> None:
    """At every byte."""
    kind, whole = type(message), bytes.fromhex(encoded)
    for size in range(len(whole)):
        try:
            found = kind.from_bytes(whole[:size])
        except DapMessageError:
            continue
        assert kind in REPEATED
        assert found.to_bytes() == whole[:size]
    with pytest.raises(DapMessageError, match=kind.__name__):
        kind.from_bytes(whole + b"\x00")


@pytest.mark.parametrize(
    ("kind", "encoded", "reason"),
    [
        (ReportUploadStatus, ID_HEX + "00", "0 is no ReportError"),
        (ReportUploadStatus, ID_HEX + "0c", "12 is no ReportError"),
        (VerifyResp, ID_HEX + "03", "3 is no VerifyRespType"),
        (VerifyResp, ID_HEX + "02" + "00", "0 is no ReportError"),
        (VerifyResp, ID_HEX + "00" + "00000000", "at least 1"),
        (Query, "00" + "0000", "0 is no BatchMode"),
        (Query, "03" + "0000", "3 is no BatchMode"),
        (PingPong, "03", "3 is no PingPongType"),
        (HpkeCiphertext, "07" + "0000" + "00000001" + "74", "at least 1"),
        (HpkeCiphertext, "07" + "0001" + "6b" + "00000000", "at least 1"),
        (HpkeCiphertext, "07" + "0001" + "6b" + "ffffffff" + "74", "4294967295 bytes are announced, 1 are left"),
        (HpkeConfigList, "0009" + "00" * 9, "at least 10"),
        (PlaintextInputShare, "0005" + "ff0100026100000001" + "70", "announced"),
    ],
)
def test_bytes_that_are_no_message_are_refused_by_field(kind: type[Structure], encoded: str, reason: str) -> None:
    """Unknown numbers, empty parts, lengths beyond the end."""
    with pytest.raises(DapMessageError, match=reason):
        kind.from_bytes(bytes.fromhex(encoded))


@pytest.mark.parametrize(
    ("kind", "head", "part", "most"),
    [
        (UploadRequest, "", REPORT_HEX, messages.MAX_UPLOAD_REPORTS),
        (UploadErrors, "", ID_HEX + "01", messages.MAX_UPLOAD_REPORTS),
        (AggregationJobResp, "", ID_HEX + "01", messages.MAX_JOB_REPORTS),
        (AggregationJobInitReq, "00" + "00000000" + "0000", SHARE_HEX + "00000001" + "70", messages.MAX_JOB_REPORTS),
        (ReportMetadata, ID_HEX + "00" * 8 + "fffc", "00010000", messages.MAX_EXTENSIONS),
        (PlaintextInputShare, "fffc", "00010000", messages.MAX_EXTENSIONS),
    ],
)
def test_message_of_too_many_parts_is_not_read_to_its_end(
    kind: type[Structure], head: str, part: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four MiB of the shortest reports, or of empty extensions, held up everybody for seconds while they were read."""
    read = 0
    real = Structure.read_from.__func__  # type: ignore[attr-defined]

    def count(cls: type[Structure], reader: object) -> Structure:
        nonlocal read
        read += 1
        result: Structure = real(cls, reader)
        return result

    monkeypatch.setattr(Structure, "read_from", classmethod(count))
    whole = bytes.fromhex(head) + bytes.fromhex(part) * 16_383
    with pytest.raises(DapMessageError, match=f"at most {most} are read"):
        kind.from_bytes(whole)
    assert read < 8 * most + 8


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (Interval(-1, 0), "start"),
        (Interval(0, 1 << 64), "duration"),
        (HpkeCiphertext(256, b"k", b"t"), "config_id"),
        (HpkeCiphertext(0, b"", b"t"), "encapsulated_key"),
        (ReportMetadata(ID[:-1], 0, ()), "report_id"),
        (Extension(0, bytes(1 << 16)), "extension_data"),
    ],
)
def test_field_out_of_its_bound_is_not_written(message: Any, field: str) -> None:
    """The error names it."""
    with pytest.raises(ParameterError) as caught:
        message.to_bytes()
    assert caught.value.name == field


# Reports of an upload are read by a decoder of their own: the general one says what it must find.

REPORTS = (
    Report(METADATA, b"public", CIPHERTEXT, OTHER),
    Report(ReportMetadata(ID, 3, ()), b"", OTHER, CIPHERTEXT),
    Report(ReportMetadata(ID[::-1], 0, ()), b"shares" * 9, CIPHERTEXT, CIPHERTEXT),
)


def _split(encoded: bytes) -> tuple[Report, ...] | None:
    try:
        found = split_reports(encoded)
    except DapMessageError:
        return None
    assert b"".join(each.encoded for each in found) == encoded
    for report, own in found:
        assert own == report.to_bytes()
    return tuple(each.report for each in found)


def _read(encoded: bytes) -> tuple[Report, ...] | None:
    try:
        return UploadRequest.from_bytes(encoded).reports
    except DapMessageError:
        return None


@given(
    st.lists(st.sampled_from(REPORTS), min_size=1, max_size=3),
    st.integers(0, 400),
    st.integers(0, 255),
    st.integers(0, 400),
)
def test_reports_of_an_upload_are_those_that_the_general_decoder_reads(
    reports: list[Report], place: int, value: int, cut: int
) -> None:
    """Whole, with any byte changed, and cut anywhere: the same reports or the same refusal."""
    encoded = bytearray(UploadRequest(tuple(reports)).to_bytes())
    assert _split(bytes(encoded)) == tuple(reports)
    encoded[place % len(encoded)] = value
    assert _split(bytes(encoded)) == _read(bytes(encoded))
    assert _split(bytes(encoded[:cut])) == _read(bytes(encoded[:cut]))


def test_uploaded_report_has_its_parts_in_bytes() -> None:
    """What is passed on as it is: metadata with the public share, and the helper's share."""
    for uploaded in split_reports(UploadRequest(REPORTS).to_bytes()):
        report = uploaded.report
        share = ReportShare(report.metadata, report.public_share, report.helper_input_share).to_bytes()
        assert uploaded.head + uploaded.encoded[-uploaded.helper_bytes :] == share


def test_more_reports_than_are_read_are_refused() -> None:
    """The bound is on the number, for an empty report costs as much as any."""
    encoded = UploadRequest(REPORTS).to_bytes()
    assert len(split_reports(encoded, 3)) == 3
    with pytest.raises(DapMessageError, match="at most 2 are read"):
        split_reports(encoded, 2)
