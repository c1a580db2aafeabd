"""Reads what a collector asks for: queries and batch selectors of the time-interval mode.

Source: draft-ietf-ppm-dap-18, sections 4.6.1, 4.6.4 and 5.1.
"""

from itertools import pairwise
from typing import Protocol

from alcove.platform.aggregator.problems import DapProblem, ProblemType
from alcove.platform.ingress.resources import MAX_TIME
from alcove.privacy.dap.messages import BatchMode, CollectionJobReq, Interval
from alcove.privacy.errors import DapMessageError

__all__ = ["MAX_TIME", "check_collection", "read_interval"]


class _Selection(Protocol):
    """A query or a batch selector."""

    @property
    def batch_mode(self) -> BatchMode: ...

    @property
    def config(self) -> bytes: ...


def check_collection(request: CollectionJobReq, task_id: bytes) -> None:
    """Return if nothing but the query distinguishes a request: Prio3 has no parameter, and no extension is known.

    Raises:
        DapProblem: a parameter or an extension.
    """
    if request.agg_param:
        raise DapProblem(ProblemType.INVALID_AGGREGATION_PARAMETER, "Prio3 has none: expected no bytes", task_id)
    types = [extension.extension_type for extension in request.extensions]
    if any(earlier >= later for earlier, later in pairwise(types)):
        raise DapProblem(ProblemType.INVALID_EXTENSION, "types must rise", task_id)
    if types:
        raise DapProblem(ProblemType.UNSUPPORTED_EXTENSION, f"none is supported, not {types}", task_id)


def read_interval(selection: _Selection, task_id: bytes) -> tuple[int, int]:
    """Return the first time of a selection and the one behind its last.

    Raises:
        DapProblem: it is of another batch mode, malformed, or names no batch.
    """
    if selection.batch_mode is not BatchMode.TIME_INTERVAL:
        raise DapProblem(ProblemType.INVALID_MESSAGE, "the task's batch mode is time-interval", task_id)
    try:
        interval = Interval.from_bytes(selection.config)
    except DapMessageError as error:
        raise DapProblem(ProblemType.INVALID_MESSAGE, str(error), task_id) from None
    end = interval.start + interval.duration
    if interval.duration < 1 or end > MAX_TIME:
        detail = f"a batch lasts at least one window and ends before {MAX_TIME}, not [{interval.start}, {end})"
        raise DapProblem(ProblemType.BATCH_INVALID, detail, task_id)
    return interval.start, end
