"""Makes reports on the device, and opens an aggregator's share of one.

A report is bound to its task, its time and its public share by the associated data of both ciphertexts, so nobody
between can move it elsewhere.

Source: draft-ietf-ppm-dap-18, sections 4.4.2 and 4.5.3.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from alcove.privacy import hpke
from alcove.privacy.dap.messages import (
    REPORT_ID_BYTES,
    Extension,
    HpkeCiphertext,
    HpkeConfig,
    HpkeConfigList,
    PlaintextInputShare,
    Report,
    ReportError,
    ReportMetadata,
    ReportShare,
    Role,
)
from alcove.privacy.dap.report_tokens import check_extensions, private_extension_types, public_extension_types
from alcove.privacy.dap.task import VERSION, DapTask
from alcove.privacy.entropy import Entropy
from alcove.privacy.errors import DapMessageError, HpkeError, ReportRejectedError

EARLY_S: Final = 300
"""Seconds by which a report's window may begin in the future; clocks differ by minutes."""

_SUITE: Final = (hpke.KEM_ID, hpke.KDF_ID, hpke.AEAD_ID)


def choose_config(configs: HpkeConfigList) -> HpkeConfig:
    """Return the first configuration with the algorithms that are known here.

    Raises:
        DapMessageError: none has.
    """
    for config in configs.configs:
        if (config.kem_id, config.kdf_id, config.aead_id) == _SUITE and len(config.public_key) == hpke.KEY_BYTES:
            return config
    raise DapMessageError("HpkeConfigList", "configs", "none is of X25519, HKDF-SHA256 and AES-128-GCM")


def make_config(config_id: int, public_key: bytes) -> HpkeConfig:
    """Return the configuration of a public key."""
    return HpkeConfig(config_id, *_SUITE, public_key)


@dataclass(frozen=True)
class Recipients:
    """The HPKE configurations of both aggregators."""

    leader: HpkeConfig
    helper: HpkeConfig


def make_report(
    task: DapTask,
    measurement: Any,
    time: int,
    recipients: Recipients,
    entropy: Entropy,
    *,
    extensions: Sequence[Extension] = (),
    helper_extensions: Sequence[Extension] = (),
    is_native: bool = True,
) -> Report:
    """Return a report of one measurement, under a new id.

    Args:
        task: what is measured.
        measurement: as the task's circuit takes it: the number of a cell for a histogram.
        time: of the task (`DapTask.time_at`).
        recipients: keys of the aggregators.
        entropy: source of the id and of the shares' randomness.
        extensions: public to both aggregators, by rising type.
        helper_extensions: for the helper alone, by rising type.
        is_native: whether the native core shards; the bytes are the same.

    Raises:
        ParameterError: measurement or time is out of its bound.
        HpkeError: a key is none.
    """
    vdaf = task.make_vdaf(is_native=is_native)
    metadata = ReportMetadata(entropy.random_bytes(REPORT_ID_BYTES), time, tuple(extensions))
    public_share, (leader_share, helper_share) = vdaf.shard(
        task.context, measurement, metadata.report_id, entropy.random_bytes(vdaf.rand_bytes)
    )
    aad = _bind(task, _encode_head(metadata, public_share))
    return Report(
        metadata,
        public_share,
        _seal(recipients.leader, Role.LEADER, aad, PlaintextInputShare((), leader_share)),
        _seal(recipients.helper, Role.HELPER, aad, PlaintextInputShare(tuple(helper_extensions), helper_share)),
    )


def _seal(config: HpkeConfig, role: Role, aad: bytes, share: PlaintextInputShare) -> HpkeCiphertext:
    plaintext = share.to_bytes()
    return HpkeCiphertext(config.config_id, *hpke.seal(config.public_key, _input_share_info(role), aad, plaintext))


def check_time(task: DapTask, time: int, now_s: float) -> None:
    """Return if a report of this time may be taken now.

    Raises:
        ReportRejectedError: it is of the future, or not of the task's interval.
    """
    if time > task.time_at(now_s + EARLY_S):
        raise ReportRejectedError(ReportError.REPORT_TOO_EARLY, "its time has not come")
    if task.interval is not None:
        if time < task.interval.start:
            raise ReportRejectedError(ReportError.TASK_NOT_STARTED, "it is from before the task")
        if time >= task.interval.start + task.interval.duration:
            raise ReportRejectedError(ReportError.TASK_EXPIRED, "it is from after the task")


def open_input_share(task: DapTask, role: Role, keys: Mapping[int, bytes], share: ReportShare) -> PlaintextInputShare:
    """Return the VDAF's input share, and the private extensions, that are sealed in an aggregator's share of a report.

    Args:
        task: of the report.
        role: of the aggregator, LEADER or HELPER.
        keys: its private keys, by the id of their configuration.
        share: what the aggregator has of the report.

    Raises:
        ReportRejectedError: the key is unknown, the share cannot be opened, or the report has other extensions than
            those of the task (`report_tokens`); what they hold is not checked.
    """
    head = _encode_head(share.metadata, share.public_share)
    return open_uploaded_share(task, role, keys, share.encrypted_input_share, metadata=share.metadata, head=head)


def open_uploaded_share(
    task: DapTask,
    role: Role,
    keys: Mapping[int, bytes],
    sealed: HpkeCiphertext,
    *,
    metadata: ReportMetadata,
    head: bytes,
) -> PlaintextInputShare:
    """Return what `open_input_share` does of a share whose report is at hand in bytes.

    Args:
        task: of the report.
        role: of the aggregator.
        keys: its private keys.
        sealed: the aggregator's share.
        metadata: of the report.
        head: bytes of the report's metadata and public share.

    Raises:
        ReportRejectedError: as `open_input_share`.
    """
    private_key = keys.get(sealed.config_id)
    if private_key is None:
        raise ReportRejectedError(ReportError.HPKE_UNKNOWN_CONFIG_ID, f"no key has the id {sealed.config_id}")
    aad, info = _bind(task, head), _input_share_info(role)
    try:
        plaintext = hpke.open_sealed(private_key, sealed.encapsulated_key, info, aad, sealed.payload)
    except HpkeError as error:
        raise ReportRejectedError(ReportError.HPKE_DECRYPT_ERROR, error.reason) from None
    try:
        opened = PlaintextInputShare.from_bytes(plaintext)
    except DapMessageError as error:
        raise ReportRejectedError(ReportError.INVALID_MESSAGE, str(error)) from None
    check_extensions(metadata.public_extensions, public_extension_types(task))
    check_extensions(opened.private_extensions, private_extension_types(task, role))
    return opened


def _bind(task: DapTask, head: bytes) -> bytes:
    """Return the associated data of both shares: `InputShareAad`, whose parts are at hand in bytes."""
    return task.task_id + task.encoded + head


def _encode_head(metadata: ReportMetadata, public_share: bytes) -> bytes:
    return metadata.to_bytes() + len(public_share).to_bytes(4, "big") + public_share


def _input_share_info(role: Role) -> bytes:
    return VERSION + b" input share" + bytes([Role.CLIENT, role])
