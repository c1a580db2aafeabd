"""Releases a batch: adds noise to an aggregator's sum, seals it for the collector, and puts both sums together there.

Each aggregator adds the whole noise, so the promise holds when the other one is dishonest. The noise of a batch is
drawn once: who asks again gets the same bytes.

Source: draft-ietf-ppm-dap-18, sections 4.6.6 and 4.6.7; docs/privacy.md, section on noise.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from alcove.privacy import hpke
from alcove.privacy.dap.messages import (
    AggregateShareAad,
    CollectionJobReq,
    CollectionJobResp,
    HpkeCiphertext,
    HpkeConfig,
    Role,
)
from alcove.privacy.dap.task import VERSION, DapTask
from alcove.privacy.errors import HpkeError

SENDERS: Final = (Role.LEADER, Role.HELPER)


def add_noise(task: DapTask, aggregate_share: bytes, draw: Callable[[], int]) -> bytes:
    """Return an aggregator's sum with noise added to each of its elements.

    Args:
        task: of the batch.
        aggregate_share: the sum, encoded.
        draw: gives independent integers, discrete Laplace of scale `task.noise_scale`.

    Raises:
        VdafDecodeError: the sum is malformed.
    """
    field = task.circuit.field
    elements = field.decode(aggregate_share, task.circuit.output_length)
    return field.encode((element + draw()) % field.modulus for element in elements)


def seal_aggregate_share(
    task: DapTask, role: Role, collector: HpkeConfig, request: CollectionJobReq, aggregate_share: bytes
) -> HpkeCiphertext:
    """Return a sum that only the collector opens, bound to the task and to the collector's request.

    Raises:
        HpkeError: the collector's key is none.
    """
    sealed = hpke.seal(collector.public_key, _info(role), _aad(task, request), aggregate_share)
    return HpkeCiphertext(collector.config_id, *sealed)


@dataclass(frozen=True)
class Release:
    """What the collector learns of a batch.

    Attributes:
        reports: how many were added.
        start: the first time that has one.
        duration: from there to behind the last one.
        sums: noised, one for each element; negative where the noise is.
    """

    reports: int
    start: int
    duration: int
    sums: tuple[int, ...]


def open_release(task: DapTask, private_key: bytes, request: CollectionJobReq, response: CollectionJobResp) -> Release:
    """Return what the aggregators have released to the collector.

    Raises:
        HpkeError: a share was not sealed for this task, request and key.
        VdafDecodeError: a share is malformed.
    """
    field, length = task.circuit.field, task.circuit.output_length
    totals = [0] * length
    for role, sealed in zip(SENDERS, (response.leader_aggregate_share, response.helper_aggregate_share), strict=True):
        share = open_aggregate_share(task, role, private_key, request, sealed)
        totals = field.add(totals, field.decode(share, length))
    sums = center(totals, field.modulus)
    return Release(response.report_count, response.interval.start, response.interval.duration, sums)


def open_aggregate_share(
    task: DapTask, role: Role, private_key: bytes, request: CollectionJobReq, sealed: HpkeCiphertext
) -> bytes:
    """Return one aggregator's noised sum, encoded.

    Raises:
        HpkeError: it was not sealed for this task, request and key.
    """
    aad = _aad(task, request)
    try:
        return hpke.open_sealed(private_key, sealed.encapsulated_key, _info(role), aad, sealed.payload)
    except HpkeError as error:
        raise HpkeError(reason=f"the {role.name.lower()}'s aggregate share: {error.reason}") from None


def center(elements: Sequence[int], modulus: int) -> tuple[int, ...]:
    """Return the integers nearest to zero that elements of a field stand for."""
    return tuple(element if element <= modulus // 2 else element - modulus for element in elements)


def _info(role: Role) -> bytes:
    return VERSION + b" aggregate share" + bytes([role, Role.COLLECTOR])


def _aad(task: DapTask, request: CollectionJobReq) -> bytes:
    return AggregateShareAad(task.task_id, task.configuration, request).to_bytes()
