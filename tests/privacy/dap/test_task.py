"""A task is what its bytes say; other bytes are another task, and what is not known here is refused by name."""

import hashlib
import hmac
from dataclasses import replace
from fractions import Fraction

import pytest
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
from alcove.privacy.dap.rules import TaskRules
from alcove.privacy.dap.task import TaskInfo, derive_verify_key, read_task
from alcove.privacy.errors import DapMessageError, DapTaskError, ParameterError
from alcove.privacy.prio3.native import NativePrio3
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tests.privacy.dap.party import make_task

TASK = make_task()


def test_task_id_and_verification_key_are_those_of_the_taskprov_draft() -> None:
    """The id is a salted digest of the bytes, the key an HKDF of the id; the library's HKDF gives the same."""
    salt = hashlib.sha256(b"dap-taskprov task id").digest()
    assert TASK.task_id == hashlib.sha256(salt + TASK.encoded).digest()
    secret = bytes(range(32))
    expected = HKDF(SHA256(), 32, hashlib.sha256(b"dap-taskprov").digest(), TASK.task_id).derive(secret)
    assert hmac.compare_digest(derive_verify_key(secret, TASK.task_id), expected)
    with pytest.raises(ParameterError, match="secret"):
        derive_verify_key(secret[1:], TASK.task_id)


def test_task_read_from_its_bytes_is_the_same_task() -> None:
    """Configuration, circuit, noise and interval come out of the bytes."""
    bounded = make_task(interval=Interval(5, 3))
    assert read_task(bounded.encoded).interval == Interval(5, 3)
    again = read_task(TASK.encoded)
    assert (again.task_id, again.info, again.sensitivity) == (TASK.task_id, TASK.info, 2)
    assert again.noise_scale == Fraction(2)
    assert again.time_at(86_400 * 3 - 0.5) == 2


@pytest.mark.parametrize(
    ("vdaf_type", "configuration", "sensitivity", "length"),
    [
        (1, b"", 1, 1),
        (2, SumConfig(100).to_bytes(), 100, 1),
        (3, SumVecConfig(4, 7, 2).to_bytes(), 28, 4),
        (4, HistogramConfig(12, 3).to_bytes(), 2, 12),
        (5, MultihotCountVecConfig(6, 2, 3).to_bytes(), 6, 6),
    ],
)
def test_each_vdaf_of_the_draft_has_its_sensitivity(
    vdaf_type: int, configuration: bytes, sensitivity: int, length: int
) -> None:
    """Replacing one report changes the sum by at most the sensitivity; native code knows every circuit."""
    changed = replace(TASK.configuration, vdaf_type=vdaf_type, vdaf_configuration=configuration)
    task = read_task(changed.to_bytes())
    assert (task.sensitivity, task.circuit.output_length) == (sensitivity, length)
    assert isinstance(task.make_vdaf(), NativePrio3)


WRONG: dict[str, dict[str, object]] = {
    "task_info": {"task_info": b"anything"},
    "vdaf_type": {"vdaf_type": 0x80000000},
    "batch mode": {"batch_mode": BatchMode.LEADER_SELECTED},
    "batch_config": {"batch_config": b"x"},
    "time_precision": {"time_precision_s": 0},
    "min_batch_size": {"min_batch_size": 0},
    "length of nothing": {"vdaf_configuration": HistogramConfig(0, 1).to_bytes()},
    "length of much": {"vdaf_configuration": HistogramConfig(1 << 31, 1).to_bytes()},
    "chunk of nothing": {"vdaf_configuration": HistogramConfig(8, 0).to_bytes()},
    "chunk of much": {"vdaf_configuration": HistogramConfig(8, 1 << 31).to_bytes()},
    "maximum": {"vdaf_type": 2, "vdaf_configuration": SumConfig((1 << 64) - 1).to_bytes()},
    "no maximum": {"vdaf_type": 2, "vdaf_configuration": SumConfig(0).to_bytes()},
    "elements": {"vdaf_type": 3, "vdaf_configuration": SumVecConfig(1 << 17, 1, 1).to_bytes()},
    "weight": {"vdaf_type": 5, "vdaf_configuration": MultihotCountVecConfig(4, 2, 5).to_bytes()},
    "noise of much": {"vdaf_type": 2, "vdaf_configuration": SumConfig(1 << 40).to_bytes()},
    "unknown extension": {"extensions": (Extension(2, b""),)},
    "extension twice": {"extensions": (Extension(1, Interval(1, 1).to_bytes()),) * 2},
}


@pytest.mark.parametrize("name", WRONG)
def test_task_that_is_not_known_here_is_refused_with_the_field_and_its_bound(name: str) -> None:
    """No configuration makes memory of its numbers, or another error."""
    with pytest.raises(DapTaskError, match=r"the task's .* must be"):
        read_task(replace(TASK.configuration, **WRONG[name]).to_bytes())  # type: ignore[arg-type]


def test_bytes_that_are_no_configuration_are_refused() -> None:
    """Every prefix, every byte more, and a count that has a configuration of its VDAF."""
    for size in range(len(TASK.encoded)):
        with pytest.raises(DapMessageError):
            read_task(TASK.encoded[:size])
    with pytest.raises(DapMessageError):
        read_task(TASK.encoded + b"\0")
    with pytest.raises(DapTaskError, match="4096"):
        read_task(bytes(5000))
    with pytest.raises(DapMessageError, match="Prio3Count"):
        read_task(replace(TASK.configuration, vdaf_type=1, vdaf_configuration=b"x").to_bytes())


@pytest.mark.parametrize("epsilon", ["0", "1.0", "01", "2/2", "17", "1/101", "-1", "1/0", " 1", "1e9"])
def test_epsilon_has_one_spelling_and_its_bounds(epsilon: str) -> None:
    """A number that is written in another way, or is out of its bounds, is no task of ours."""
    text = f'{{"epsilon":"{epsilon}","task":"{"0" * 64}"}}'.encode()
    with pytest.raises(DapTaskError, match="task_info"):
        TaskInfo.from_bytes(text)


def test_issuer_of_tokens_is_a_part_of_the_task() -> None:
    """It reads back, gives another task, and is written in one way or not at all."""
    info = TaskInfo(Fraction(1), bytes(32), "https://issuer.example/" + "x" * 105)
    task = make_task(info=info)
    assert task.info == info
    assert task.task_id != TASK.task_id
    for value in ("null", '""', '"issuer.example"', '"https://"', '"https://a b"', "1", '"https://%s"' % ("x" * 121)):
        text = f'{{"epsilon":"1","issuer":{value},"task":"{"0" * 64}"}}'.encode()
        with pytest.raises(DapTaskError, match="task_info"):
            TaskInfo.from_bytes(text)


def test_rules_refuse_each_weaker_term_and_cannot_be_weaker_than_the_product() -> None:
    """Batch, window, epsilon, length and two seats for one party; the product's floor stands under all rules."""
    rules = TaskRules(max_elements=8)
    rules.check(TASK)
    for changed, what in (
        (make_task(min_batch_size=99), "min_batch_size"),
        (make_task(window_s=3599), "time_precision"),
        (make_task(info=TaskInfo(Fraction(201, 100), bytes(32))), "epsilon"),
        (make_task(cells=9), "elements"),
        (make_task(helper_url=TASK.configuration.leader_url.decode()), "helper_url"),
    ):
        with pytest.raises(DapTaskError, match=what):
            rules.check(changed)
    with pytest.raises(ParameterError, match="min_batch_size"):
        TaskRules(min_batch_size=99)
    with pytest.raises(ParameterError, match="min_window_s"):
        TaskRules(min_window_s=3599)


def test_no_two_configurations_have_one_id() -> None:
    """Every field of the configuration is in the id."""
    changes: list[TaskConfiguration] = [
        replace(TASK.configuration, leader_url=b"https://other/"),
        replace(TASK.configuration, helper_url=b"https://other/"),
        replace(TASK.configuration, time_precision_s=3600),
        replace(TASK.configuration, min_batch_size=101),
        replace(TASK.configuration, vdaf_configuration=HistogramConfig(8, 3).to_bytes()),
        replace(TASK.configuration, task_info=TaskInfo(Fraction(1), b"\1" * 32).to_bytes()),
        replace(TASK.configuration, extensions=(Extension(1, Interval(1, 1).to_bytes()),)),
    ]
    assert len({read_task(each.to_bytes()).task_id for each in changes} | {TASK.task_id}) == len(changes) + 1
