"""Lists which roles may call each RPC, and refuses the others.

One line per RPC; a test walks every service and fails if a line is missing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from alcove.platform.domain.errors import PermissionDeniedError
from alcove.platform.domain.principal import Principal

__all__ = ["PERMISSIONS", "Permission", "require", "require_owner", "require_team"]


@dataclass(frozen=True)
class Permission:
    """An RPC's effect, in words, and the roles that may call it."""

    action: str
    roles: frozenset[str]


_EVERYBODY: Final = frozenset({"reader", "operator", "team"})


def _read(thing: str) -> Permission:
    return Permission(f"read {thing}", _EVERYBODY)


def _push(action: str) -> Permission:
    return Permission(action, frozenset({"team"}))


def _operate(action: str) -> Permission:
    return Permission(action, frozenset({"operator"}))


def _stop(action: str) -> Permission:
    """Urgent calls, or those of two persons: operators, and each team for its own features (`require_owner`)."""
    return Permission(action, frozenset({"operator", "team"}))


def _share(action: str) -> Permission:
    """Calls about what teams and operators both plan with; each team for its own features (`require_owner`)."""
    return Permission(action, frozenset({"operator", "team"}))


_REGISTRY = "/alcove.api.registry.v1.RegistryService/"
_ROLLOUT = "/alcove.api.rollout.v1.RolloutService/"
_POLICY = "/alcove.api.policy.v1.PolicyService/"
_EXPERIMENT = "/alcove.api.experiment.v1.ExperimentService/"
_METRIC = "/alcove.api.metric.v1.MetricService/"
_AUDIT = "/alcove.api.audit.v1.AuditService/"
_SESSION = "/alcove.api.session.v1.SessionService/"
_STATUS = "/alcove.api.status.v1.StatusService/"
_PLANNER = "/alcove.api.planner.v1.PlannerService/"

PERMISSIONS: Final[Mapping[str, Permission]] = MappingProxyType(
    {
        _REGISTRY + "UploadBlob": _push("upload blobs"),
        _REGISTRY + "GetUpload": _read("uploads"),
        _REGISTRY + "GetBlob": _read("blobs"),
        _REGISTRY + "GetTeamMetadata": _read("team metadata"),
        _REGISTRY + "PublishVersion": _push("publish versions"),
        _REGISTRY + "ListVersions": _read("versions"),
        _REGISTRY + "ListFeatures": _read("features"),
        _REGISTRY + "GetVersion": _read("versions"),
        _REGISTRY + "SetAlias": _push("move aliases"),
        _REGISTRY + "RemoveAlias": _push("remove aliases"),
        _REGISTRY + "ApproveAlias": _stop("approve moves of aliases"),
        _REGISTRY + "ListAliases": _read("aliases"),
        _REGISTRY + "ListAliasProposals": _read("aliases"),
        _REGISTRY + "ListAliasMoves": _read("aliases"),
        _REGISTRY + "SetTag": _push("set tags"),
        _REGISTRY + "RemoveTag": _push("remove tags"),
        _REGISTRY + "ValidateVersion": _push("validate versions"),
        _REGISTRY + "ReleaseVersion": _push("release versions"),
        _REGISTRY + "DeprecateVersion": _push("deprecate versions"),
        _REGISTRY + "RevokeVersion": _stop("revoke versions"),
        _REGISTRY + "SetFeatureRules": _operate("set the rules of features"),
        _REGISTRY + "GetFeatureRules": _read("rules"),
        _ROLLOUT + "CreateRollout": _operate("create rollouts"),
        _ROLLOUT + "UpdateRollout": _operate("update rollouts"),
        _ROLLOUT + "AdvanceRollout": _operate("advance rollouts"),
        _ROLLOUT + "ApproveRollout": _operate("approve advances"),
        _ROLLOUT + "PauseRollout": _operate("pause rollouts"),
        _ROLLOUT + "ResumeRollout": _operate("resume rollouts"),
        _ROLLOUT + "RollBackRollout": _operate("roll back rollouts"),
        _ROLLOUT + "HaltRollout": _operate("halt rollouts"),
        _ROLLOUT + "DeleteRollout": _operate("delete rollouts"),
        _ROLLOUT + "GetRollout": _read("rollouts"),
        _ROLLOUT + "WatchRollout": _read("rollouts"),
        _ROLLOUT + "ListRollouts": _read("rollouts"),
        _ROLLOUT + "ListStageAnalyses": _read("analyses of rollouts"),
        _PLANNER + "PlanRollout": _read("forecasts of rollouts"),
        _PLANNER + "PlanExperiment": _read("forecasts of experiments"),
        _PLANNER + "PlanReadout": _read("forecasts of read-outs"),
        _POLICY + "CreateLayer": _operate("create layers"),
        _POLICY + "ListLayers": _read("layers"),
        _POLICY + "SetHoldout": _operate("set holdouts"),
        _POLICY + "GetHoldout": _read("holdouts"),
        _POLICY + "StartReadout": _operate("start read-outs"),
        _POLICY + "StopReadout": _operate("stop read-outs"),
        _POLICY + "GetReadout": _read("read-outs"),
        _POLICY + "ListReadouts": _read("read-outs"),
        _POLICY + "OverrideValues": _operate("override values"),
        _POLICY + "ClearOverride": _operate("end overrides"),
        _POLICY + "ListOverrides": _read("overrides"),
        _POLICY + "GetPolicy": _read("policies"),
        _POLICY + "ListPolicies": _read("policies"),
        _POLICY + "GetPrivacy": _read("what reports say"),
        _EXPERIMENT + "CreateExperiment": _operate("create experiments"),
        _EXPERIMENT + "UpdateExperiment": _operate("change experiments"),
        _EXPERIMENT + "StartExperiment": _operate("start experiments"),
        _EXPERIMENT + "StopExperiment": _operate("stop experiments"),
        _EXPERIMENT + "DeleteExperiment": _operate("delete experiments"),
        _EXPERIMENT + "GetExperiment": _read("experiments"),
        _EXPERIMENT + "WatchExperiment": _read("experiments"),
        _EXPERIMENT + "GetResults": _read("results"),
        _EXPERIMENT + "ListExperiments": _read("experiments"),
        _METRIC + "CreateMetric": _share("create metrics"),
        _METRIC + "DeprecateMetric": _share("deprecate metrics"),
        _METRIC + "GetMetric": _read("metrics"),
        _METRIC + "ListMetrics": _read("metrics"),
        _AUDIT + "ListEntries": _read("the audit log"),
        _STATUS + "GetTrust": _read("whom devices trust"),
        _STATUS + "GetHealth": _read("the server's health"),
        _SESSION + "CreateSession": Permission("make sessions", _EVERYBODY | {"console"}),
        _SESSION + "BeginSignIn": Permission("begin to sign people in", frozenset({"console"})),
        _SESSION + "GetSession": _read("their session"),
        _SESSION + "DeleteSession": Permission("end their session", _EVERYBODY),
        _SESSION + "ListSessions": _read("their sessions"),
        _SESSION + "DeleteOtherSessions": Permission("end their other sessions", _EVERYBODY),
    }
)


def require(principal: Principal, method: str) -> None:
    """Let the caller pass or not.

    Raises:
        PermissionDeniedError: the role may not call `method`, or nobody may (it has no line in the table).
    """
    permission = PERMISSIONS.get(method)
    if permission is None:
        raise PermissionDeniedError(str(principal.role), f"call {method}")
    if principal.role.name not in permission.roles:
        raise PermissionDeniedError(str(principal.role), permission.action, sorted(permission.roles))


def require_team(principal: Principal, team: str) -> None:
    """Let the caller act for `team` or not.

    Raises:
        PermissionDeniedError: the caller is not of that team.
    """
    if principal.role.team != team:
        raise PermissionDeniedError(str(principal.role), f"publish for team {team!r}")


def require_owner(principal: Principal, team: str, action: str) -> None:
    """Let an operator of everything or of `team`, or a member of it, do something to what the team owns.

    Raises:
        PermissionDeniedError: the caller is of another team.
    """
    is_operator = principal.role.name == "operator" and principal.role.team is None
    if not is_operator and principal.role.team != team:
        raise PermissionDeniedError(str(principal.role), f"{action} of team {team!r}")
