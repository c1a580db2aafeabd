"""Every field of every request with values outside its bound: INVALID_ARGUMENT, and the message names the field.

The table below has a row for each field of each request; a new RPC or field without one fails the first test.  A value
is put into a request that is otherwise acceptable, and sent to a real server by somebody who may make the call.
"""

import base64
import copy
import itertools
import math
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import grpc
import pytest
from alcove.api.registry.v1 import registry_pb2
from alcove.platform.client import Arm
from alcove.platform.domain.permissions import PERMISSIONS
from alcove.platform.testing import Served, ServerWorld
from alcove.platform.testing.wire import METHODS, Wire, field_paths, method_path, request_class
from alcove.registry.parameters import Parameter
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message

INVALID = grpc.StatusCode.INVALID_ARGUMENT
DIGEST = "0" * 64

# Values outside the bound of a kind of field.
LONG = "x" * 600
NAMES = ("Upper", "a b", "a/b", "../a", "ä", "a\n", LONG)
APP, FEATURE, TEAM = ("", *NAMES), ("", *NAMES, "0digit", "halt", "policy", "x" * 65), ("", *NAMES, "0digit")
VERSION = ("", "1", "1.0", "1.0.0.0", "01.0.0", "v1.0.0", "1.0.0-rc1", "1.0.1000000", "-1.0.0", " 1.0.0")
ID = ("", "a b", "../a", "ä", "a\n", "-a", "'; DROP TABLE rollouts; --", "x" * 65, LONG, "x" * 60_000)
REQUEST_ID = ("", "short", "x" * 65, "with space", "ümlaut-ümlaut", "new-line\n", "sl/ash-sl/ash", "semi;colon")
REASON = ("", "   ", "x" * 501, "a\x00b", "two\nlines", "bell\x07")
ETAG = ("0", "01", "-1", "x", '"1"', "1" * 19)
METRIC = ("", "Upper", "1st", "a b", "a:b", "a\n", "x" * 65, LONG)
PARAMETER = ("", "unknown", "Upper", "a b", LONG)  # the versions of these requests declare `enabled`
ALIAS = ("", "Upper", "1.0.0", "a b", "a\n", "x" * 33, "-a", "@production", "é")
KEY = ("", "Upper", "1k", "a b", "k=v", "é", "x" * 65)
SHA256 = ("", "0" * 63, "0" * 65, "A" * 64, "g" * 64)
PAGE_SIZE = (1001, 2**32 - 1)
PAGE_TOKEN = ("x", "-1", "1.5", " 1", "9" * 40)
NOT_NUMBERS = (math.nan, math.inf, -math.inf)
AUDIENCE = ("x", "os == ", "os = ios", "colour == red", "app_version >= x", "os == ios and", "x" * 60_000)
NO_BOUND: Final = None
"""A field that every value of its type is right for."""


def optional(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same where nothing means something."""
    return tuple(value for value in values if value != "")


PLAN = {
    "plan": (NO_BOUND,),
    "plan.stages": (NO_BOUND,),
    "plan.stages.share_basis_points": (0, 10_001, 2**32 - 1),
    "plan.stages.minimum_s": (90 * 86_400 + 1, 2**32 - 1),
    "plan.stages.minimum_cohort": (1, 49, 10_000_001, 2**32 - 1),
    "plan.guardrails": (NO_BOUND,),
    "plan.guardrails.metric": (0, 5, 99),
    "plan.guardrails.margin": (-0.1, 1.0, 5.0, *NOT_NUMBERS),
    "plan.guardrails.quantile": (-0.1, 0.5, *NOT_NUMBERS),
    "plan.guardrails.edge_ms": (-0.1, 0.5, *NOT_NUMBERS),
    "plan.questions": (NO_BOUND,),  # output only: the server chooses them, whatever a request says
    "plan.questions.metrics": (NO_BOUND,),
    "plan.questions.share_basis_points": (NO_BOUND,),
    "plan.own_guardrails": (NO_BOUND,),
    "plan.own_guardrails.metric": METRIC,
    "plan.own_guardrails.metric_version": (NO_BOUND,),  # one that is not there is NOT_FOUND: test_own_guardrails.py
    "plan.own_guardrails.margin": (NO_BOUND,),  # its bound is the metric's: likewise
    "plan.on_harm": (1, 5, 99),
    "plan.on_timeout": (4, 5, 99),
    "plan.timeout_s": (90 * 86_400 + 1, 2**32 - 1),
    "plan.auto_advance_reason": ("x" * 501,),
    "plan.epsilon": ("0", "-1", "0.001", "8.5", "x", "nan", "inf", "1e9", "9" * 400),
    "plan.latency_edges_ms": (-1.0, *NOT_NUMBERS),
    "plan.window_s": (2**32 - 1,),
    "plan.mechanism": (3, 99),
    "plan.expected_devices": (10**10 + 1, 2**64 - 1),
    "plan.horizon_windows": (91, 2**32 - 1),
    "plan.is_open_ended": (NO_BOUND,),
    "plan.signature_override_reason": ("x" * 501,),
}
REASONED = {"request_id": REQUEST_ID, "rollout_id": ID, "reason": REASON, "etag": ETAG}
BOUND = {"request_id": REQUEST_ID, "rollout_id": ID, "etag": ETAG}
NAMED = {"request_id": REQUEST_ID, "feature": FEATURE, "version": VERSION}
PAGED = {"page_size": PAGE_SIZE, "page_token": PAGE_TOKEN}
FILTERED = {"app": optional(APP), "feature": optional(FEATURE), **PAGED}
EXPERIMENT = {"request_id": REQUEST_ID, "experiment_id": ID, "etag": ETAG}
MEASURED = {
    "metric": ("x", "own", "metric:", "metric:Upper", "a\n", LONG),
    "edge_ms": (-1.0, 10.0, *NOT_NUMBERS),  # the accepted share has none
    "latency_edges_ms": (-1.0, 10.0, *NOT_NUMBERS),
    "epsilon": ("0", "-1", "0.001", "2.01", "6.01", "two", "nan", "inf", "1e3"),
    "mechanism": (3, 99),
    "window_s": (1, 86_399, 7 * 86_400, 2**32 - 1),
    "months": (13, 2**32 - 1),
}
COMPARISON = {
    "arms": (NO_BOUND,),
    "arms.name": ("", "a\n", "x" * 600),
    "arms.version": VERSION,
    "arms.share_basis_points": (0, 10_001, 2**32 - 1),
    "arms.values": (NO_BOUND,),
    "arms.values.name": PARAMETER,
    **{f"arms.values.{kind}": (NO_BOUND,) for kind in ("boolean", "integer", "text")},  # test_parameter_values.py
    "epsilon": ("0", "-1", "0.001", "6.01", "two", "nan", "inf", "1e3"),
    "latency_edges_ms": (-1.0, 0.00001, *NOT_NUMBERS),
    "window_s": (3599, 2**31, 2**32 - 1),
    "minimum_cohort": (1, 49, 10_000_001, 2**32 - 1),
    "primary": (NO_BOUND,),
    "primary.kind": (7, 99),
    "primary.quantile": (-0.1, 1.0, 5.0, *NOT_NUMBERS),
    "primary.numerator": (0, 2, 5, 99),  # 2: what decides in these requests is no ratio
    "primary.denominator": (0, 2, 5, 99),
    "primary.less_is_better": (True,),
    "primary.edge_ms": (-0.1, 10.0, *NOT_NUMBERS),
    "primary.metric": ("metric", *METRIC[1:]),  # what decides in these requests is no metric of a team's own
    "primary.metric_version": (1, 2**32 - 1),
    "primary.is_preference": (NO_BOUND,),  # of answers
    "secondary": (NO_BOUND,),
    "secondary.kind": (7, 99),
    "secondary.quantile": (-0.1, 0.5, *NOT_NUMBERS),  # a mean has none
    "secondary.numerator": (0, 2, 5, 99),
    "secondary.denominator": (0, 2, 5, 99),
    "secondary.less_is_better": (True,),
    "secondary.edge_ms": (-0.1, 10.0, *NOT_NUMBERS),
    "secondary.metric": ("metric", *METRIC[1:]),
    "secondary.metric_version": (1, 2**32 - 1),
    "secondary.is_preference": (NO_BOUND,),
    "mechanism": (3, 99),
    "guardrails": (NO_BOUND,),
    "guardrails.metric": (0, 5, 99),
    "guardrails.margin": (-0.1, 1.0, 5.0, *NOT_NUMBERS),
    "guardrails.quantile": (-0.1, 0.5, *NOT_NUMBERS),
    "guardrails.edge_ms": (-0.1, 0.5, *NOT_NUMBERS),
    "plan": (NO_BOUND,),
    "plan.mde": (-0.1, *NOT_NUMBERS),
    "plan.base_rate": (-0.1, 1.0, 5.0, *NOT_NUMBERS),
    "plan.expected_devices": (2**63, 2**64 - 1),
    "plan.devices_needed": (NO_BOUND,),  # output only
    "plan.days_needed": (NO_BOUND,),
    "plan.detectable": (NO_BOUND,),
    "plan.planned_reports": (NO_BOUND,),
    "plan.interim_analyses": (1, 2, 21, 2**32 - 1),  # 2: a quantile has no interim analyses
    "plan.horizon_reports": (10**12 + 1, 2**64 - 1),
    "plan.denominator_share": (-0.1, 0.5, 1.5, *NOT_NUMBERS),
    "plan.cuped_error_ratio": (NO_BOUND,),
    "plan.base_distribution": (-0.1, 0.5, 1.0, *NOT_NUMBERS),
    "pre_edges": (-1.0, 0.0, 1.0, 0.00001, *NOT_NUMBERS),
    "own_guardrails": (NO_BOUND,),
    "own_guardrails.metric": METRIC,
    "own_guardrails.metric_version": (NO_BOUND,),  # as in a rollout's plan
    "own_guardrails.margin": (NO_BOUND,),
    "bandit": (NO_BOUND,),
    "bandit.min_share_basis_points": (1, 99, 5001, 2**32 - 1),
    "bandit.max_step_basis_points": (1, 99, 5001, 2**32 - 1),
    "own_questions": (NO_BOUND,),
    "own_questions.metric": METRIC,
    "own_questions.metric_version": (NO_BOUND,),
    "own_questions.share_basis_points": (NO_BOUND,),  # once the metric is found: test_own_primary_metrics.py
    "dimension": ("os", "os=beos", "os=android;locale=de", "os=android,ios,web,linux", "app_version=2,1", "x" * 5000),
    "audience": AUDIENCE,
    "segment": (NO_BOUND,),
    "segment.layer": ("", "a b", "../a", "x" * 100),
    "segment.first": (10_000, 2**32 - 1),
    "segment.count": (0, 10_001, 2**32 - 1),
    "validate_only": (NO_BOUND,),
}

ROWS: Final[dict[str, dict[str, tuple[Any, ...]]]] = {
    "UploadBlob": {
        "header": (NO_BOUND,),
        "header.sha256": SHA256,
        "header.size_bytes": (0, 2**63, 2**64 - 1),
        "header.offset_bytes": (NO_BOUND,),  # beyond what is there is OUT_OF_RANGE: test_transfers.py
        "chunk": (NO_BOUND,),  # a first message without a header is refused as `header`: test_an_upload_needs_a_header
    },
    "GetUpload": {"sha256": SHA256},
    "GetBlob": {"sha256": SHA256, "offset_bytes": (NO_BOUND,)},
    "GetTeamMetadata": {"team": TEAM},
    "PublishVersion": {
        "request_id": REQUEST_ID,
        "team_metadata": (b"", b"x", b"{}", b"\xff" * 100, b"[" * 10_000),
        "manifest": (b"", b"x", b"{}", b"\xff" * 100, b"[" * 10_000),
    },
    "ListVersions": {
        "feature": optional(FEATURE),
        "team": optional(TEAM),
        "states": (0, 6, 99),
        "alias": optional(ALIAS),
        "tags": (NO_BOUND,),
        "tags.key": KEY,
        "tags.value": ("x" * 257, "two\nlines"),
        "text": ("x" * 201, "a b c d e f g h i"),
        "order": (4, 99),
        "page_size": PAGE_SIZE,
        "page_token": (*PAGE_TOKEN, "1"),
    },
    "GetVersion": {"feature": FEATURE, "version": VERSION, "alias": ("Upper", "1.0.0", "a b", "x" * 33)},
    "SetAlias": {**NAMED, "alias": ALIAS, "reason": REASON},
    "RemoveAlias": {"request_id": REQUEST_ID, "feature": FEATURE, "alias": ALIAS, "reason": REASON},
    "ApproveAlias": {"request_id": REQUEST_ID, "proposal_id": ID},
    "ListAliases": {"feature": FEATURE},
    "ListAliasMoves": {"feature": FEATURE, "alias": optional(ALIAS), **PAGED},
    "SetTag": {
        **NAMED,
        "key": KEY,
        "value": ("", "x" * 257, "two\nlines", "a\x00b"),
    },
    "RemoveTag": {**NAMED, "key": KEY},
    "ValidateVersion": NAMED,
    "ReleaseVersion": {**NAMED, "reason": REASON},
    "DeprecateVersion": {**NAMED, "reason": REASON},
    "RevokeVersion": {**NAMED, "reason": REASON},
    "SetFeatureRules": {
        "request_id": REQUEST_ID,
        "feature": FEATURE,
        "rules": (NO_BOUND,),
        "rules.must_approve_aliases": (NO_BOUND,),
        "rules.accepts_any_state": (NO_BOUND,),
        "rules.must_approve_rollouts": (NO_BOUND,),
        "rules.max_size_bytes": (2**63, 2**64 - 1),
        "rules.max_memory_bytes": (2**63, 2**64 - 1),
        "rules.max_latency_ms": (-1.0, *NOT_NUMBERS),
        "rules.allowed_ops": ("", "a b", "x" * 600),
        "rules.set_by": (NO_BOUND,),  # ignored in a request
        "rules.set_at_s": (NO_BOUND,),
    },
    "GetFeatureRules": {"feature": FEATURE},
    "CreateRollout": {
        "request_id": REQUEST_ID,
        "app": APP,
        "feature": FEATURE,
        "version": VERSION,
        **PLAN,
        "values": (NO_BOUND,),
        "values.name": PARAMETER,
        **{f"values.{kind}": (NO_BOUND,) for kind in ("boolean", "integer", "text")},  # test_parameter_values.py
        "audience": AUDIENCE,
        "validate_only": (NO_BOUND,),
        "share_basis_points": (10_001, 2**32 - 1),
        "override_reason": optional(REASON),
    },
    "UpdateRollout": {
        "request_id": REQUEST_ID,
        "rollout_id": ID,
        **PLAN,
        "audience": AUDIENCE,
        "update_mask": (NO_BOUND,),
        "update_mask.paths": ("", "nothing", "plan.nothing", "rollout_id", "plan.stages.share_basis_points"),
        "etag": ETAG,
        "validate_only": (NO_BOUND,),
    },
    "AdvanceRollout": {
        "request_id": REQUEST_ID,
        "rollout_id": ID,
        "share_basis_points": (10_001, 2**32 - 1),
        "override_reason": optional(REASON),
        "etag": ETAG,
    },
    "ApproveRollout": BOUND,
    "PauseRollout": {**BOUND, "reason": optional(REASON)},
    "ResumeRollout": {**BOUND, "reason": optional(REASON)},
    "RollBackRollout": REASONED,
    "HaltRollout": REASONED,
    "DeleteRollout": BOUND,
    "GetRollout": {"rollout_id": ID},
    "WatchRollout": {"rollout_id": ID},
    "ListRollouts": {
        **FILTERED,
        "states": (0, 7, 99),
        "text": ("x" * 201, "two\nlines", "a b c d e f g h i"),
        "order": (3, 99),
        "need": (3, 99),
    },
    "ListStageAnalyses": {"rollout_id": ID, **PAGED},
    "CreateExperiment": {
        "request_id": REQUEST_ID,
        "app": APP,
        "feature": FEATURE,
        **COMPARISON,
    },
    "UpdateExperiment": {
        **EXPERIMENT,
        **COMPARISON,
        "update_mask": (NO_BOUND,),
        "update_mask.paths": ("", "nothing", "plan.nothing", "experiment_id", "app"),
    },
    "StartExperiment": EXPERIMENT,
    "StopExperiment": {**EXPERIMENT, "reason": optional(REASON)},
    "DeleteExperiment": EXPERIMENT,
    "GetExperiment": {"experiment_id": ID},
    "WatchExperiment": {"experiment_id": ID, "with_reports": (NO_BOUND,)},
    "GetResults": {"experiment_id": ID, "with_cells": (NO_BOUND,)},
    "ListExperiments": {
        **FILTERED,
        "states": (0, 4, 99),
        "text": ("x" * 201, "a b c d e f g h i"),
        "order": (3, 99),
        "needs_decision": (NO_BOUND,),
    },
    "PlanRollout": {
        **PLAN,
        "behavior": (NO_BOUND,),
        "behavior.crash_fallback": (-0.1, 1.1, *NOT_NUMBERS),
        "behavior.error": (-0.1, 1.1, *NOT_NUMBERS),
        "behavior.refused": (-0.1, 1.1, *NOT_NUMBERS),
        "behavior.feedback": (-0.1, 1.1, *NOT_NUMBERS),
        "behavior.latency_ms": (-1.0, 0.0, 600_001.0, *NOT_NUMBERS),
        "differences": (-0.1, 1.0, *NOT_NUMBERS),
        "harm_days": (31, 2**32 - 1),
        "feature": (NO_BOUND,),  # read where an own metric is watched alone: test_plans.py of the commands
        "own_spreads": (NO_BOUND,),
        "own_spreads.metric": METRIC,
        "own_spreads.parts": (NO_BOUND,),  # once the metric is found: likewise
    },
    "PlanExperiment": {
        **{
            name: values
            for name, values in COMPARISON.items()
            if name.partition(".")[0] not in ("arms", "audience", "segment", "secondary", "bandit", "validate_only")
        },
        "feature": (NO_BOUND,),  # as in PlanRollout
        "arm_shares_basis_points": (0, 10_001, 2**32 - 1),
    },
    "PlanReadout": {
        **MEASURED,
        "devices": (0, 10**10 + 1, 2**64 - 1),
        "share_basis_points": (0, 5001, 2**32 - 1),
        "base_rate": (-0.1, 1.0, 5.0, *NOT_NUMBERS),
        "mde": (-0.1, 1.0, 5.0, *NOT_NUMBERS),
    },
    "CreateMetric": {
        "request_id": REQUEST_ID,
        "feature": FEATURE,
        "name": METRIC,
        "kind": (0, 5, 99),
        "edges": (-1.0, 1.0, 2.5, 1e6, *NOT_NUMBERS),
        "cap": (-1.0, 2.5, 1e6, *NOT_NUMBERS),
        "more_is_better": (NO_BOUND,),
        "owner": REASON,
        "description": REASON,
        "validate_only": (NO_BOUND,),
    },
    "DeprecateMetric": {
        "request_id": REQUEST_ID,
        "feature": FEATURE,
        "name": METRIC,
        "reason": REASON,
        "successor": (*optional(METRIC), "metric"),
    },
    "GetMetric": {"feature": FEATURE, "name": METRIC},
    "ListMetrics": {"feature": optional(FEATURE), **PAGED},
    "ListEntries": {
        "object": (NO_BOUND,),
        "app": optional(APP),
        "since_s": (-1, -(2**62)),
        "until_s": (-1, -(2**62)),
        "text": ("x" * 201, "a b c d e f g h i", "a\x00b"),
        "principal": ("x" * 201, "a\x00b"),
        "action": ("x" * 201, "a\x00b"),
        **PAGED,
    },
    "CreateLayer": {
        "request_id": REQUEST_ID,
        "app": APP,
        "name": ("", "a b", "../a", "x" * 100),
        "validate_only": (NO_BOUND,),
    },
    "ListLayers": {"app": APP},
    "SetHoldout": {
        "request_id": REQUEST_ID,
        "app": APP,
        "share_basis_points": (10_001, 2**32 - 1),
        "etag": ETAG,
        "validate_only": (NO_BOUND,),
    },
    "GetHoldout": {"app": APP},
    "StartReadout": {
        "request_id": REQUEST_ID,
        "app": APP,
        "features": ("", *NAMES),
        **MEASURED,
        "metric_version": (1, 2**32 - 1),  # the accepted share has none
        "until_s": (-1, 0, 1, 2**62),
        "validate_only": (NO_BOUND,),
    },
    "StopReadout": {
        "request_id": REQUEST_ID,
        "readout_id": ID,
        "reason": (NO_BOUND,),  # of one that is there: test_readouts.py
        "etag": (NO_BOUND,),  # likewise
        "validate_only": (NO_BOUND,),
    },
    "GetReadout": {"readout_id": ID},
    "ListReadouts": {"app": APP, **PAGED},
    "OverrideValues": {
        "request_id": REQUEST_ID,
        "app": APP,
        "feature": FEATURE,
        "values": (NO_BOUND,),
        "values.name": PARAMETER,
        **{f"values.{kind}": (NO_BOUND,) for kind in ("boolean", "integer", "text")},  # test_value_overrides.py
        "reason": REASON,
        "validate_only": (NO_BOUND,),
    },
    "ClearOverride": {
        "request_id": REQUEST_ID,
        "app": APP,
        "feature": FEATURE,
        "reason": REASON,
        "validate_only": (NO_BOUND,),
    },
    "ListOverrides": {"app": NAMES},
    "GetPolicy": {"app": APP, "serial": (2**53, 2**64 - 1)},
    "ListPolicies": {"app": NAMES, "page_size": PAGE_SIZE, "page_token": NAMES},  # without an app a token is an app
    "GetPrivacy": {"app": APP, "task_ids": ("x", "A" * 64, "0" * 65)},
    "ListFeatures": {
        "team": optional(TEAM),
        "text": ("x" * 201, "two\nlines"),
        "page_size": PAGE_SIZE,
        "page_token": optional(FEATURE),  # the last name of the page before
    },
    # What proves somebody is the console's to bring, and is refused to others before it is looked at.
    "CreateSession": {
        "certificate": (NO_BOUND,),
        "provider_answer": (NO_BOUND,),
        "provider_answer.state": (NO_BOUND,),
        "provider_answer.code": (NO_BOUND,),
        "provider_answer.issuer": (NO_BOUND,),
        "provider_answer.error": (NO_BOUND,),
        "provider_answer.browser_secret": (NO_BOUND,),
    },
    "GetSession": {"is_idle": (NO_BOUND,)},
    "DeleteSession": {"session_id": optional(ID)},
    "ListSessions": {},
    "DeleteOtherSessions": {},
    "BeginSignIn": {},
    "ListAliasProposals": {"team": optional(TEAM), **PAGED},
    "GetTrust": {},
    "GetHealth": {},
}
# What the message calls a field, where it is another name than the field's own.
CALLED = {
    "update_mask.paths": "update_mask",
    "guardrails.quantile": "guardrails",  # with the metric that it is none of
    "guardrails.edge_ms": "guardrails",
    "arms.values.name": "values.name",  # with the arm's name between
    "team_metadata": "team-text",  # the metadata's own name, which the team knows it by
}


def test_every_field_of_every_request_has_a_row() -> None:
    """No RPC and no field that nobody thought about, and no row for one that is gone."""
    expected = {name: set(field_paths(name)) for name in METHODS}
    seen = {name: set(rows) for name, rows in ROWS.items()}
    missing = {name: sorted(paths - seen.get(name, set())) for name, paths in expected.items()}
    gone = {name: sorted(paths - expected.get(name, set())) for name, paths in seen.items()}
    assert not {name: paths for name, paths in missing.items() if paths}
    assert not {name: paths for name, paths in gone.items() if paths}


def test_every_call_that_somebody_may_make_is_in_the_table() -> None:
    """A service of a file that this test does not read is seen by its permissions."""
    assert PERMISSIONS.keys() == {method_path(method) for method in METHODS.values()}


def test_a_field_without_a_row_is_seen() -> None:
    """The walk finds fields inside fields."""
    assert "plan.stages.share_basis_points" in set(field_paths("CreateRollout"))


# Sending


class Caller:
    """Sends requests to the shared server, each as somebody who may."""

    def __init__(self, world: ServerWorld, served: Served, bases: Mapping[str, Any]) -> None:
        self._world = world
        self._wire = Wire(served.grpc_address)
        self._bases = bases
        self._numbers = itertools.count()

    def close(self) -> None:
        """Close the connection."""
        self._wire.close()

    def base(self, name: str) -> Message:
        """An acceptable request of a method."""
        method = METHODS[name]
        values = {**self._bases, **self._bases.get(name, {})}
        known = {field.json_name for field in method.input_type.fields} | set(method.input_type.fields_by_name)
        values = {field: value for field, value in values.items() if field in known}
        if "request_id" in values:
            values["request_id"] = f"field-{next(self._numbers):06d}"
        return ParseDict(copy.deepcopy(values), request_class(name)())

    def send(self, name: str, request: Message) -> tuple[grpc.StatusCode, str]:
        """Status and message of the answer."""
        roles = PERMISSIONS[method_path(METHODS[name])].roles
        token = self._world.token("operator" if "operator" in roles else "team:text")
        status, message, _ = self._wire.call(name, request, token)
        return status, message


@pytest.fixture(scope="module")
def caller(world: ServerWorld, served: Served) -> Iterator[Caller]:
    """A caller whose acceptable requests name things that exist."""
    own = "text_158"
    with world.client(served, "team:text") as team:
        for version in ("1.0.0", "2.0.0"):
            world.publish(team, own, version, parameters=(Parameter(name="enabled", type="bool", default=True),))
    with world.client(served, "operator") as operator:
        rollout_id = operator.create_rollout("app-fields", own, "1.0.0").rollout_id
    package = world.package(own, "9.0.0")
    with world.client(served, "team:text") as team:
        for data in package.blobs().values():
            team.upload_blob(data)
    arms = [
        Arm(name="a", version="1.0.0", share_basis_points=5000),
        Arm(name="b", version="2.0.0", share_basis_points=5000),
    ]
    with world.client(served, "operator") as operator:
        experiment_id = operator.create_experiment("app-fields", own, arms).experiment_id
        operator.set_holdout("app-read", 500)
        first = operator.create_rollout("app-read", own, "1.0.0").rollout_id
        operator.advance_rollout(first, 10_000, override_reason="first")
    guardrails = [{"metric": "GUARD_METRIC_ERROR", "margin": 0.01}]
    comparison = {
        "arms": [
            {"name": arm.name, "version": arm.version, "shareBasisPoints": arm.share_basis_points} for arm in arms
        ],
        "guardrails": guardrails,
        "primary": {"kind": "PRIMARY_KIND_LATENCY_QUANTILE", "quantile": 0.5},
        "secondary": [{"kind": "PRIMARY_KIND_LATENCY_MEAN"}],
        "latencyEdgesMs": [10.0, 12.0, 14.0, 16.0, 18.0],
        "plan": {"mde": 2.0},
        "segment": {"layer": "layer", "first": 0, "count": 100},
    }
    everything = (
        "arms,epsilon,latencyEdgesMs,windowS,minimumCohort,primary,secondary,guardrails,plan,audience,segment,preEdges,"
        "mechanism,bandit,dimension"
    )
    stage = {"shareBasisPoints": 100, "minimumS": 60, "minimumCohort": 100}
    plan = {"stages": [stage], "guardrails": guardrails, "onHarm": 4}
    metric = {"name": "metric", "kind": 1, "edges": [3.0], "owner": "people", "description": "words"}
    metric["moreIsBetter"] = False
    bases: dict[str, Any] = {
        "request_id": "field-by-field",
        "app": "app-fields",
        "feature": own,
        "version": "1.0.0",
        "rollout_id": rollout_id,
        "experiment_id": experiment_id,
        "proposal_id": "ap-0",
        "team": "text",
        "reason": "because",
        "alias": "champion",
        "sha256": DIGEST,
        "key": "key",
        "value": "value",
        "GetVersion": {"alias": ""},
        "ListVersions": {"version": "", "tags": [{"key": "key"}], "alias": ""},
        "PublishVersion": {
            "teamMetadata": base64.b64encode(world.tree.team_metadata("text")).decode(),
            "manifest": base64.b64encode(package.manifest.to_bytes()).decode(),
        },
        "UploadBlob": {"header": {"sha256": DIGEST, "sizeBytes": "5"}},
        "SetFeatureRules": {"rules": {}},
        "AdvanceRollout": {"shareBasisPoints": 100, "overrideReason": "first"},
        "CreateMetric": metric,
        "DeprecateMetric": {"name": "metric", "reason": "because"},
        "GetMetric": {"name": "metric"},
        "CreateLayer": {"name": "layer"},
        "SetHoldout": {"app": "app-held", "shareBasisPoints": 100},
        "CreateRollout": {"plan": plan},
        "UpdateRollout": {"plan": plan, "updateMask": "plan,audience"},
        "PlanRollout": {"plan": plan},
        "PlanExperiment": {
            **{name: value for name, value in comparison.items() if name not in ("arms", "segment", "secondary")},
            "armSharesBasisPoints": [5000, 5000],
        },
        "StartReadout": {"app": "app-read", "features": [own], "untilS": str(int(time.time()) + 90 * 86_400)},
        "OverrideValues": {"app": "app-read", "values": [{"name": "enabled", "boolean": False}]},
        "ClearOverride": {"app": "app-read"},
        "StopReadout": {"readout_id": "hr-0"},
        "GetReadout": {"readout_id": "hr-0"},
        "PlanReadout": {"devices": 100_000, "shareBasisPoints": 1000},
        "CreateExperiment": comparison,
        "UpdateExperiment": {**comparison, "updateMask": everything},
    }
    made = Caller(world, served, bases)
    assert made.send("CreateLayer", made.base("CreateLayer"))[0] is grpc.StatusCode.OK
    yield made
    made.close()


def put(message: Any, path: str, value: Any) -> None:
    """Put a value into the first message at a path."""
    *steps, last = path.split(".")
    for step in steps:
        inner = getattr(message, step)
        if message.DESCRIPTOR.fields_by_name[step].is_repeated:
            inner = inner[0] if len(inner) else inner.add()
        message = inner
    if message.DESCRIPTOR.fields_by_name[last].is_repeated:
        del getattr(message, last)[:]
        getattr(message, last).append(value)
    else:
        setattr(message, last, value)


CASES = [
    (name, path, value)
    for name, rows in ROWS.items()
    for path, values in rows.items()
    for value in values
    if value is not NO_BOUND
]


def test_an_upload_needs_a_header(caller: Caller) -> None:
    """A first message with bytes, or with nothing, is refused as the header's fault."""
    for request in (registry_pb2.UploadBlobRequest(chunk=b"bytes"), registry_pb2.UploadBlobRequest()):
        status, message = caller.send("UploadBlob", request)
        assert status is INVALID
        assert "header" in message


@pytest.mark.parametrize("name", ROWS)
def test_a_value_outside_its_bound_is_an_invalid_argument_that_names_the_field(caller: Caller, name: str) -> None:
    """Whatever the value and whatever else the request holds."""
    wrong = []
    for path, value in [case[1:] for case in CASES if case[0] == name]:
        request = caller.base(name)
        if name == "GetVersion" and path == "alias":
            request.ClearField("version")
        put(request, path, value)
        status, message = caller.send(name, request)
        called_as = CALLED.get(path, path.rpartition(".")[2])
        is_named = called_as in message.partition(": expected")[0] and "Value error" not in message  # a library's words
        if status is not INVALID or not is_named:
            wrong.append((path, str(value)[:40], status.name, message[:150]))
    assert not wrong, "\n".join(map(str, wrong))


def test_what_is_acceptable_is_not_refused_as_malformed(caller: Caller) -> None:
    """The requests that values are put into: whatever ends them, it is no field.  Last, for they do things."""
    for name in ROWS.keys() - {"UploadBlob"}:  # which wants the bytes after its header
        status, message = caller.send(name, caller.base(name))
        assert status is not INVALID, (name, message)
