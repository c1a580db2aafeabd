"""Provides an app's client, which syncs signed models, predicts on the device, and reports under local privacy.

    from alcove.sdk import Client
    client = Client(app="messenger", data_dir=..., server="https://…", trusted_root=Path("root.json"))
    answer = client.feature("language_id").predict("Wo ist der Bahnhof?")     # never uses the network

Doubles for an app's own tests (clock, entropy, transport, runtime) are in `alcove.sdk.testing`.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alcove.privacy.budget import BudgetLimits
    from alcove.registry.errors import IntegrityError
    from alcove.registry.policy.attributes import DeviceAttributes
    from alcove.sdk.aggregators import AggregatorPair, ObliviousRelay
    from alcove.sdk.assignments import Assignments
    from alcove.sdk.client import Client
    from alcove.sdk.comparisons import ComparedAnswers
    from alcove.sdk.contract import Signature
    from alcove.sdk.debug import DebugOverrides
    from alcove.sdk.errors import (
        AlcoveSdkError,
        AttestationError,
        CallError,
        ClosedError,
        DeviceError,
        DeviceStorageError,
        ForeignFolderError,
        IncompatibleError,
        InsecureServerError,
        NoPredictionError,
        NoSpaceError,
        NoVariantError,
        OtherSignatureError,
        OutOfBoundError,
        QuarantinedError,
        RemoteError,
        ResponseTooLargeError,
        RuntimeTooOldError,
        StatusError,
        StreamClosedError,
        TokenKeyMismatchError,
        TooSlowError,
        TransportError,
        UnknownFeatureError,
    )
    from alcove.sdk.handle import Answer, AnswerError, FeatureHandle, StreamingHandle, TypedHandle
    from alcove.sdk.metric_records import RecordedMetric
    from alcove.sdk.ports import Port
    from alcove.sdk.reports import ReportResult
    from alcove.sdk.stream import FeatureStream
    from alcove.sdk.stream_frames import FrameAnswer, StreamCounters
    from alcove.sdk.summary import PrivacySummary, RequestCount
    from alcove.sdk.sync import Refusal, SyncResult, VersionChange
    from alcove.sdk.transport import OutboundRequest

__all__ = [
    "AggregatorPair",
    "AlcoveSdkError",
    "Answer",
    "AnswerError",
    "Assignments",
    "AttestationError",
    "BudgetLimits",
    "CallError",
    "Client",
    "ClosedError",
    "ComparedAnswers",
    "DebugOverrides",
    "DeviceAttributes",
    "DeviceError",
    "DeviceStorageError",
    "FeatureHandle",
    "FeatureStream",
    "ForeignFolderError",
    "FrameAnswer",
    "IncompatibleError",
    "InsecureServerError",
    "IntegrityError",
    "NoPredictionError",
    "NoSpaceError",
    "NoVariantError",
    "ObliviousRelay",
    "OtherSignatureError",
    "OutOfBoundError",
    "OutboundRequest",
    "Port",
    "PrivacySummary",
    "QuarantinedError",
    "RecordedMetric",
    "Refusal",
    "RemoteError",
    "ReportResult",
    "RequestCount",
    "ResponseTooLargeError",
    "RuntimeTooOldError",
    "Signature",
    "StatusError",
    "StreamClosedError",
    "StreamCounters",
    "StreamingHandle",
    "SyncResult",
    "TokenKeyMismatchError",
    "TooSlowError",
    "TransportError",
    "TypedHandle",
    "UnknownFeatureError",
    "VersionChange",
]

# Loaded on first use: importing this costs an app nothing, and `Client` loads no library before it is needed.
_HOMES = {
    "AggregatorPair": "alcove.sdk.aggregators",
    "ObliviousRelay": "alcove.sdk.aggregators",
    "Answer": "alcove.sdk.handle",
    "AnswerError": "alcove.sdk.handle",
    "Assignments": "alcove.sdk.assignments",
    "BudgetLimits": "alcove.privacy.budget",
    "Client": "alcove.sdk.client",
    "ComparedAnswers": "alcove.sdk.comparisons",
    "DebugOverrides": "alcove.sdk.debug",
    "DeviceAttributes": "alcove.registry.policy.attributes",
    "FeatureHandle": "alcove.sdk.handle",
    "FeatureStream": "alcove.sdk.stream",
    "FrameAnswer": "alcove.sdk.stream_frames",
    "IntegrityError": "alcove.registry.errors",
    "OutboundRequest": "alcove.sdk.transport",
    "Port": "alcove.sdk.ports",
    "PrivacySummary": "alcove.sdk.summary",
    "RecordedMetric": "alcove.sdk.metric_records",
    "Refusal": "alcove.sdk.sync",
    "ReportResult": "alcove.sdk.reports",
    "RequestCount": "alcove.sdk.summary",
    "Signature": "alcove.sdk.contract",
    "StreamCounters": "alcove.sdk.stream_frames",
    "StreamingHandle": "alcove.sdk.handle",
    "SyncResult": "alcove.sdk.sync",
    "TypedHandle": "alcove.sdk.handle",
    "VersionChange": "alcove.sdk.sync",
}


def __getattr__(name: str) -> object:
    """Return a public name from the module that defines it; errors are all in one."""
    if name in __all__:
        value: object = getattr(importlib.import_module(_HOMES.get(name, "alcove.sdk.errors")), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
