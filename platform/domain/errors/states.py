"""Defines what the present state forbids: change it first."""

from collections.abc import Sequence

from alcove.platform.domain.errors.root import PlatformError


class StateError(PlatformError):
    """The call is well formed, but the present state forbids it."""


class IllegalTransitionError(StateError):
    """The state machine has no such arrow; `allowed` names those that it has."""

    def __init__(self, kind: str, name: str, state: str, action: str, allowed: Sequence[str]) -> None:
        self.kind, self.name, self.state, self.action, self.allowed = kind, name, state, action, allowed
        can = ", ".join(allowed) or "nothing any more"
        super().__init__(f"{kind} {name} is {state}: cannot {action}; it can: {can}")


class VersionRevokedError(StateError):
    """The version is forbidden for ever, in every app."""

    def __init__(self, feature: str, version: str) -> None:
        self.feature, self.version = feature, version
        super().__init__(f"{feature} {version} is revoked: nothing may choose it any more")


class NotReleasedError(StateError):
    """Rollouts, experiments and aliases take released versions only, unless the feature's rules say otherwise."""

    def __init__(self, feature: str, version: str, state: str) -> None:
        self.feature, self.version, self.state = feature, version, state
        name = f"{feature}@{version}"
        validate = f"alcove model validate {name}, then " if state == "registered" else ""
        super().__init__(
            f"{feature} {version} is {state}, and only released versions may reach devices: {validate}alcove model "
            f"release {name} --reason … (alcove model rules {feature} --any-state lets in versions of any state)"
        )


class BreakingSignatureError(StateError):
    """A version takes or gives something else than the one that an app's devices run: apps in use would fail."""

    def __init__(self, app: str, feature: str, version: str, default: str, differences: Sequence[str]) -> None:
        self.app, self.feature, self.version, self.default = app, feature, version, default
        self.differences = tuple(differences)
        super().__init__(
            f"{feature} {version} breaks apps that were built for {default}, which app {app!r} runs: "
            f"{'; '.join(differences)}. Push it as another feature; or, where every device that gets it has an app "
            "that is built for it: alcove rollout create … --signature-override-reason …, which is audited"
        )


class UploadBusyError(StateError):
    """Another call of the same sender uploads the same bytes; it may be one that was just cut off."""

    def __init__(self, sha256: str) -> None:
        self.sha256 = sha256
        super().__init__(f"blob {sha256} is being uploaded by another call: try again")


class StaleProposalError(StateError):
    """The alias moved since its next move was proposed."""

    def __init__(self, proposal_id: str, alias: str) -> None:
        self.proposal_id, self.alias = proposal_id, alias
        super().__init__(
            f"proposal {proposal_id}: {alias} has moved since, or the proposal was approved: propose again"
        )


class StaleEtagError(StateError):
    """The resource changed since the caller read it: read it again and decide again."""

    def __init__(self, kind: str, name: str, etag: str, current: str) -> None:
        self.kind, self.name, self.etag, self.current = kind, name, etag, current
        super().__init__(f"{kind} {name} was changed since it was read: its etag is {current!r}, got {etag!r}")


class ResultsRefusedError(StateError):
    """Nothing can be said of an experiment's reports: they are not what an experiment could have collected."""

    def __init__(self, experiment_id: str, reason: str) -> None:
        self.experiment_id, self.reason = experiment_id, reason
        super().__init__(f"the reports of experiment {experiment_id} cannot be read: {reason}; it can be stopped")


class AggregatorsMissingError(StateError):
    """Reports by Prio3 are asked for, and the server knows no aggregators."""

    def __init__(self) -> None:
        super().__init__(
            "mechanism prio3 needs two aggregators, and this server has none:"
            " ask for randomized response, or leave the mechanism open"
        )


class WindowCollectedError(StateError):
    """A window of a task was collected before, with other sums: its noise is drawn once."""

    def __init__(self, task_id: str, window: int) -> None:
        self.task_id, self.window = task_id, window
        super().__init__(f"window {window} of task {task_id} was collected with other sums: a window is collected once")


class FeatureBusyError(StateError):
    """Another rollout or experiment holds the feature in this app."""

    def __init__(self, app: str, feature: str, holder: str) -> None:
        self.app, self.feature, self.holder = app, feature, holder
        super().__init__(f"feature {feature!r} of app {app!r} is held by {holder}: finish it first")


class OverlappingClaimError(FeatureBusyError):
    """A device could be in this experiment and in one that runs; `reason` says which buckets or which device."""

    def __init__(self, app: str, feature: str, holder: str, reason: str) -> None:
        super().__init__(app, feature, holder)
        self.reason = reason
        self.args = (f"feature {feature!r} of app {app!r} is held by {holder}: {reason}",)


class ValuesOverriddenError(StateError):
    """The values of the feature are overridden in this app, so that no device reports on it."""

    def __init__(self, app: str, feature: str, set_by: str, reason: str) -> None:
        self.app, self.feature, self.set_by, self.reason = app, feature, set_by, reason
        super().__init__(
            f"the values of feature {feature!r} are overridden in app {app!r} by {set_by} ({reason}), and nothing can"
            " be compared: end it first (alcove override clear)"
        )


class LayerExistsError(StateError):
    """The app has a layer of this name."""

    def __init__(self, app: str, layer: str) -> None:
        self.app, self.layer = app, layer
        super().__init__(f"app {app!r} has a layer {layer!r} already")


class MetricDeprecatedError(StateError):
    """The metric is deprecated: what runs with it goes on, nothing new may name it."""

    def __init__(self, feature: str, name: str, successor: str, reason: str) -> None:
        self.feature, self.name, self.successor, self.reason = feature, name, successor, reason
        instead = f"; use {successor!r}" if successor else ""
        super().__init__(f"metric {feature}/{name} is deprecated{instead}: {reason}")


class HoldoutRaisedError(StateError):
    """A larger holdout would take devices out of an experiment that runs."""

    def __init__(self, app: str, *, share_basis_points: int, current_basis_points: int, holder: str) -> None:
        self.app, self.share_basis_points = app, share_basis_points
        self.current_basis_points, self.holder = current_basis_points, holder
        super().__init__(
            f"the holdout of app {app!r} is {current_basis_points} of 10000 and cannot rise to {share_basis_points}"
            f" while {holder} runs: devices would leave it"
        )


class ReadoutRunningError(StateError):
    """A read-out of the holdout runs: there is one at a time, and its groups stay as they are."""

    def __init__(self, app: str, readout_id: str) -> None:
        self.app, self.readout_id = app, readout_id
        super().__init__(f"read-out {readout_id} of the holdout of app {app!r} runs: stop it, or wait for its end")


class BelowMinVersionError(StateError):
    """The team has raised the minimum version of its feature above this version."""

    def __init__(self, feature: str, version: str, min_version: str) -> None:
        self.feature, self.version, self.min_version = feature, version, min_version
        super().__init__(f"{feature} {version} is below {min_version}, the minimum version that its team has set")


class NoDefaultVersionError(StateError):
    """A partial rollout of a feature that has no default version in the app."""

    def __init__(self, app: str, feature: str, share_basis_points: int) -> None:
        self.app, self.feature, self.share_basis_points = app, feature, share_basis_points
        super().__init__(
            f"feature {feature!r} of app {app!r} has no default version yet, which the devices outside of a share of "
            f"{share_basis_points / 100:g} % would run: give all of them a first version (a share of 100 %), or start "
            "an experiment"
        )


class ShareNotRaisedError(StateError):
    """A rollout's share only rises; taking it back is a roll-back."""

    def __init__(self, rollout_id: str, share_basis_points: int, wanted_basis_points: int) -> None:
        self.rollout_id, self.share_basis_points, self.wanted_basis_points = (
            rollout_id,
            share_basis_points,
            wanted_basis_points,
        )
        super().__init__(
            f"rollout {rollout_id} has a share of {share_basis_points} basis points: advance must raise it, "
            f"got {wanted_basis_points} (to take it back: rollback)"
        )


class ApprovalRequiredError(StateError):
    """A call would do alone what the feature's rules ask two people for."""

    def __init__(self, what: str, feature: str, rule: str, instead: str) -> None:
        self.what, self.feature, self.rule, self.instead = what, feature, rule, instead
        super().__init__(f"{what}: the rule {rule} of feature {feature} asks for a second person; {instead}")


class OverrideRequiredError(StateError):
    """Advancing what nothing has found safe needs an explicit reason.

    Attributes:
        feature: of the rollout.
        version: that would go to more devices.
        cause: what is missing, in words.
    """

    def __init__(self, feature: str, version: str, cause: str = "") -> None:
        self.feature, self.version = feature, version
        self.cause = cause or f"no stopped experiment named {feature} {version} the winner"
        super().__init__(f"{self.cause}: give override_reason, which is audited")


class SessionError(StateError):
    """A session is asked of a caller who has no token, or is to be ended by one who is in none."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"session: {problem}")
