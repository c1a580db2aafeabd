"""Defines the problems that an aggregator answers with: RFC 9457 documents with the types of DAP.

Source: draft-ietf-ppm-dap-18, section 3.5; draft-ietf-ppm-dap-taskprov, section 2.
"""

import base64
import json
from enum import StrEnum
from typing import Final

__all__ = ["MEDIA_TYPE", "DapProblem", "ProblemType", "encode_id"]

MEDIA_TYPE: Final = "application/problem+json"
_NAMESPACE: Final = "urn:ietf:params:ppm:dap:error:"


class ProblemType(StrEnum):
    """Types of problems, by their names in the draft."""

    INVALID_MESSAGE = "invalidMessage"
    UNRECOGNIZED_TASK = "unrecognizedTask"
    UNRECOGNIZED_AGGREGATION_JOB = "unrecognizedAggregationJob"
    BATCH_INVALID = "batchInvalid"
    INVALID_BATCH_SIZE = "invalidBatchSize"
    INVALID_AGGREGATION_PARAMETER = "invalidAggregationParameter"
    BATCH_MISMATCH = "batchMismatch"
    STEP_MISMATCH = "stepMismatch"
    BATCH_OVERLAP = "batchOverlap"
    UNSUPPORTED_EXTENSION = "unsupportedExtension"
    INVALID_EXTENSION = "invalidExtension"
    INVALID_TASK = "invalidTask"


_STATUS: Final = {ProblemType.UNRECOGNIZED_TASK: 404, ProblemType.UNRECOGNIZED_AGGREGATION_JOB: 404}


class DapProblem(Exception):  # noqa: N818 - the standard's word
    """A request that cannot be answered, and why.

    Attributes:
        kind: its type.
        detail: what was expected and what came; never what a report holds.
        task_id: of the request, where it is known.
    """

    def __init__(self, kind: ProblemType, detail: str, task_id: bytes | None = None) -> None:
        self.kind = kind
        self.detail = detail
        self.task_id = task_id
        super().__init__(f"{kind}: {detail}")

    @property
    def status(self) -> int:
        """The status of the answer, a client's error."""
        return _STATUS.get(self.kind, 400)

    def to_json(self) -> str:
        """Return the document."""
        document: dict[str, str | int] = {"type": _NAMESPACE + self.kind, "status": self.status, "detail": self.detail}
        if self.task_id is not None:
            document["taskid"] = encode_id(self.task_id)
        return json.dumps(document)

    @classmethod
    def from_json(cls, text: str | bytes) -> "DapProblem | None":
        """Return the problem that a document describes; None: it is no problem of DAP."""
        try:
            match json.loads(text):
                case {"type": str(kind), **rest} if kind.startswith(_NAMESPACE):
                    return cls(ProblemType(kind.removeprefix(_NAMESPACE)), str(rest.get("detail", ""))[:300])
        except (ValueError, RecursionError):
            pass
        return None


def encode_id(identifier: bytes) -> str:
    """Return an id as it stands in URLs: base64url without padding."""
    return base64.urlsafe_b64encode(identifier).rstrip(b"=").decode()
