"""A report opens at the aggregator that it is for, unchanged, in its task and its time, and nowhere else."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import pytest
from alcove.privacy import hpke
from alcove.privacy.dap.messages import (
    Extension,
    HpkeCiphertext,
    HpkeConfig,
    HpkeConfigList,
    InputShareAad,
    Interval,
    PlaintextInputShare,
    Report,
    ReportError,
    ReportShare,
    Role,
)
from alcove.privacy.dap.report_tokens import SECRET_EXTENSION, TOKEN_EXTENSION
from alcove.privacy.dap.reports import EARLY_S, check_time, choose_config, make_config, make_report, open_input_share
from alcove.privacy.dap.task import DapTask
from alcove.privacy.errors import DapMessageError, ParameterError, ReportRejectedError
from alcove.privacy.prio3.fields import FIELD128

from tests.privacy.dap.party import TIME, CountingEntropy, Parties, make_task, make_token_task

TASK = make_task()
PARTIES = Parties()
REPORT = PARTIES.report(TASK, 3)
LEADER_SHARE = ReportShare(REPORT.metadata, REPORT.public_share, REPORT.leader_input_share)


def _open(share: ReportShare = LEADER_SHARE, role: Role = Role.LEADER, task: DapTask = TASK) -> PlaintextInputShare:
    return open_input_share(task, role, {1: PARTIES.leader_key}, share)


def test_report_has_the_same_bytes_from_python_and_from_native_code() -> None:
    """Both forms of the VDAF shard alike; only HPKE's own key differs, so the plaintexts are compared."""
    opened = []
    for is_native in (True, False):
        report = make_report(TASK, 3, TIME, PARTIES.recipients, CountingEntropy(), is_native=is_native)
        opened.append([PARTIES.open(TASK, role, report) for role in (Role.LEADER, Role.HELPER)])
    assert opened[0] == opened[1]


def test_one_share_of_a_report_is_the_same_whatever_was_measured() -> None:
    """The helper's share and the leader's proof blind do not depend on the cell; the leader's share looks uniform."""
    helper = {PARTIES.open(TASK, Role.HELPER, PARTIES.report(TASK, cell)).input_share for cell in range(8)}
    assert len(helper) == 1
    leader = [PARTIES.open(TASK, Role.LEADER, PARTIES.report(TASK, cell)).input_share for cell in range(2)]
    shares = [FIELD128.decode(each[: 8 * 16], 8) for each in leader]
    assert sum(first != second for first, second in zip(*shares, strict=True)) == 2  # the helper's share hides which


def test_report_of_a_cell_that_is_none_is_not_made() -> None:
    """The measurement is bounded before anything is drawn."""
    for cell in (-1, 8):
        with pytest.raises(ParameterError, match="measurement"):
            PARTIES.report(TASK, cell)


def test_no_change_of_a_report_share_opens() -> None:
    """Every byte of id, time, public share, key and ciphertext is bound, and so are task and role."""
    for changed in _changed_shares(LEADER_SHARE):
        with pytest.raises(ReportRejectedError) as caught:
            _open(changed)
        assert caught.value.error in {ReportError.HPKE_DECRYPT_ERROR, ReportError.HPKE_UNKNOWN_CONFIG_ID}
    with pytest.raises(ReportRejectedError, match="decrypt"):
        _open(role=Role.HELPER)
    with pytest.raises(ReportRejectedError, match="decrypt"):
        open_input_share(make_task(min_batch_size=101), Role.LEADER, {1: PARTIES.leader_key}, LEADER_SHARE)


def _changed_shares(share: ReportShare) -> Iterator[ReportShare]:
    sealed = share.encrypted_input_share
    for at in range(16):
        yield replace(share, metadata=replace(share.metadata, report_id=_flip(share.metadata.report_id, at)))
    yield replace(share, metadata=replace(share.metadata, time=TIME + 1))
    yield replace(share, metadata=replace(share.metadata, public_extensions=(Extension(7, b""),)))
    yield replace(share, encrypted_input_share=replace(sealed, config_id=2))
    for at in range(len(share.public_share)):
        yield replace(share, public_share=_flip(share.public_share, at))
    for at in range(len(sealed.encapsulated_key)):
        changed = replace(sealed, encapsulated_key=_flip(sealed.encapsulated_key, at))
        yield replace(share, encrypted_input_share=changed)
    for at in range(len(sealed.payload)):
        yield replace(share, encrypted_input_share=replace(sealed, payload=_flip(sealed.payload, at)))


def _flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def _seal_share(plaintext: bytes, public: tuple[int, ...], task: DapTask, role: Role) -> ReportShare:
    metadata = replace(REPORT.metadata, public_extensions=tuple(Extension(each, b"") for each in public))
    aad = InputShareAad(task.task_id, task.configuration, metadata, b"").to_bytes()
    key = hpke.derive_public_key(PARTIES.leader_key)
    sealed = hpke.seal(key, b"dap-18 input share\x01" + bytes([role]), aad, plaintext)
    return ReportShare(metadata, b"", HpkeCiphertext(1, *sealed))


TOKEN, HIDDEN = TOKEN_EXTENSION, SECRET_EXTENSION
ADMITTED = {
    (False, Role.LEADER): ((), ()),
    (False, Role.HELPER): ((), ()),
    (True, Role.LEADER): ((TOKEN,), ()),
    (True, Role.HELPER): ((TOKEN,), (HIDDEN,)),
}


@pytest.mark.parametrize("has_issuer", [False, True])
@pytest.mark.parametrize("role", [Role.LEADER, Role.HELPER])
def test_report_has_the_extensions_of_its_task_or_is_rejected(has_issuer: bool, role: Role) -> None:
    """All combinations of none, known, unknown, double and disordered ones, public and private: one is admitted."""
    task = make_token_task() if has_issuer else TASK
    lists = [(), (TOKEN,), (HIDDEN,), (7,), (TOKEN, TOKEN), (TOKEN, HIDDEN), (HIDDEN, TOKEN), (7, TOKEN)]
    for public, private in itertools.product(lists, lists):
        plaintext = PlaintextInputShare(tuple(Extension(each, b"") for each in private), b"x").to_bytes()
        share = _seal_share(plaintext, public, task, role)
        if (public, private) == ADMITTED[has_issuer, role]:
            assert _open(share, role, task).payload == b"x"
            continue
        with pytest.raises(ReportRejectedError, match="extensions") as caught:
            _open(share, role, task)
        assert caught.value.error is ReportError.INVALID_MESSAGE


def test_plaintext_that_is_no_input_share_rejects_the_report() -> None:
    """What the device sealed is not believed to be a message."""
    with pytest.raises(ReportRejectedError) as caught:
        _open(_seal_share(b"\0", (), TASK, Role.LEADER))
    assert caught.value.error is ReportError.INVALID_MESSAGE


@pytest.mark.parametrize(
    ("time", "now_s", "error"),
    [
        (4, 5 * 86_400, ReportError.TASK_NOT_STARTED),
        (5, 5 * 86_400, None),
        (5, 5 * 86_400 - EARLY_S, None),
        (5, 5 * 86_400 - EARLY_S - 1, ReportError.REPORT_TOO_EARLY),
        (7, 30 * 86_400, None),
        (8, 30 * 86_400, ReportError.TASK_EXPIRED),
    ],
)
def test_report_outside_of_its_time_is_rejected(time: int, now_s: float, error: ReportError | None) -> None:
    """Too early by more than clocks differ, before the task, after the task."""
    task = make_task(interval=Interval(5, 3))
    if error is None:
        check_time(task, time, now_s)
        return
    with pytest.raises(ReportRejectedError) as caught:
        check_time(task, time, now_s)
    assert caught.value.error is error


def test_first_configuration_of_the_known_suite_is_chosen() -> None:
    """Other algorithms and sizes are passed over; a list without ours is refused."""
    ours = make_config(4, bytes(32))
    others = tuple(
        replace(ours, **change) for change in ({"kem_id": 16}, {"kdf_id": 3}, {"aead_id": 3}, {"public_key": bytes(33)})
    )
    assert choose_config(HpkeConfigList((*others, ours, replace(ours, config_id=5)))) == ours
    with pytest.raises(DapMessageError, match="X25519"):
        choose_config(HpkeConfigList(others))
    assert HpkeConfig.from_bytes(ours.to_bytes()) == ours


def test_report_on_the_wire_is_the_same_size_for_every_measurement() -> None:
    """The size says nothing of the cell."""
    sizes = {len(PARTIES.report(TASK, cell, str(cell)).to_bytes()) for cell in range(8)}
    assert len(sizes) == 1
    assert Report.from_bytes(REPORT.to_bytes()) == REPORT
