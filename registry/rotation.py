"""Drafts a change of keys, teams or roles from the current metadata; nothing is signed here.

::

    begin(state) ─▶ rotate(role, add, remove, threshold) … ─▶ add_team(…) ─▶ renew(role) ─▶ draft()

Every role whose signatures a step touches is drafted with it: new keys of the targets mean that the targets are
signed again, those of a team that its list of versions and all its bins are.  What the online keys sign (policy, halt,
snapshot, timestamp) the server signs when it accepts the change.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Final

from alcove.registry import layout, limits
from alcove.registry._tuf import DelegatedRole, Delegations, Metadata, Root, SSlibKey, Targets
from alcove.registry.errors import MissingTargetError, PublishError
from alcove.registry.rules import check_teams, delegations
from alcove.registry.signed_time import utc
from alcove.registry.signing_request import SigningRequest
from alcove.registry.team import raise_min_version, reinstate
from alcove.registry.trust import bins_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from alcove.registry._tuf import Key, Role
    from alcove.registry.reinstatements import Reinstatement
    from alcove.registry.trust import TrustedState

TOP_ROLES: Final = ("root", "targets", "snapshot", "timestamp")


class Draft:
    """Collects what a change shall say."""

    def __init__(self, state: TrustedState | None, *, now_s: int) -> None:
        """Begin a change of a tree, or of none: the ceremony.

        Args:
            state: what the tree says now.
            now_s: seconds since 1970 from which the new signatures hold.
        """
        self._state = state
        self._now_s = now_s
        self._root: Root | None = None
        self._targets: Targets | None = None
        self._teams: dict[str, Targets] = {}
        self._is_owner_alone: set[str] = set()  # teams whose bins stay as they are
        if state is None:
            self._root = Root(version=1, expires=self._expires("root"), consistent_snapshot=True)
            self._targets = Targets(
                version=1, expires=self._expires("targets"), delegations=Delegations(keys={}, roles={})
            )

    def rotate(
        self, role: str, *, add: Sequence[Key] = (), remove: Sequence[str] = (), threshold: int | None = None
    ) -> None:
        """Give a role other keys.

        Args:
            role: "root", "targets", "snapshot", "timestamp", "policy", "halt" or "team-<name>".
            add: public keys that may sign from then on.
            remove: ids of keys that may sign no longer.
            threshold: how many have to sign; as many as now unless given.

        Raises:
            MissingTargetError: the tree has no such role.
            PublishError: a key to add is there already, one to remove is not, or its kind is unknown to TUF's clients.
        """
        if role in TOP_ROLES:
            root = self._next_root()
            _change_keys(root, role, add=add, remove=remove, threshold=threshold)
            if role == "targets":
                self._next_targets()
            return
        targets = self._next_targets()
        if role not in delegations(targets):
            raise MissingTargetError(role)
        _change_keys(targets, role, add=add, remove=remove, threshold=threshold)
        if layout.is_team(role):
            self._next_team(role)
            self._is_owner_alone.discard(role)

    def add_team(self, team: str, features: Sequence[str], keys: Sequence[Key]) -> None:
        """Let a new team publish versions of features that nobody owns.

        Raises:
            PublishError: the team is there, has no key, or a feature has an owner.
            ValueError: a name is malformed or reserved.
        """
        targets = self._next_targets()
        known = delegations(targets)
        role = layout.team_role(team)
        if role in known:
            msg = f"{role} is in the tree already; rotate changes its keys, and more features are added with own()"
            raise PublishError(msg)
        self._delegate(targets, role, keys, _paths(known, team, features))
        self._teams[role] = Targets(version=1, expires=self._expires(role))

    def own(self, team: str, features: Sequence[str]) -> None:
        """Let a team publish versions of further features that nobody owns.

        Raises:
            MissingTargetError: the tree has no such team.
            PublishError: a feature has an owner.
            ValueError: a name is malformed or reserved.
        """
        targets = self._next_targets()
        known = delegations(targets)
        role = layout.team_role(team)
        if role not in known:
            raise MissingTargetError(role)
        known[role].paths = [*(known[role].paths or ()), *_paths(known, team, features)]

    def delegate_online(self, role: str, key: Key) -> None:
        """Name the server's key of "policy" or "halt" in a first change."""
        self._delegate(self._next_targets(), role, [key], [f"{role}/*.json"])

    def renew(self, role: str) -> None:
        """Have a role signed again, for another year; nothing else of it changes.

        Raises:
            MissingTargetError: the tree has no such role, or it is one that the server renews.
        """
        if role == "root":
            self._next_root()
        elif role == "targets":
            self._next_targets()
        elif layout.is_team(role) and self._state is not None and role in self._state.roles:
            self._next_team(role)
            self._is_owner_alone.discard(role)
        else:
            raise MissingTargetError(role)

    def raise_min_version(self, team: str, feature: str, min_version: str) -> None:
        """Let no device run an older version of a feature again.

        Raises:
            MissingTargetError: the tree has no such team.
            PublishError: the feature is not the team's, or the minimum version is as high already; it only rises.
            MetadataError: the feature or version has no acceptable form.
        """
        role = layout.team_role(team)
        if not raise_min_version(role, self._own_team(role, feature), feature, min_version):
            msg = f"the minimum version of {feature} is {min_version} already"
            raise PublishError(msg)

    def reinstate(self, team: str, item: Reinstatement) -> None:
        """Let what a halt took away run again; the server leaves it out of its next halt.

        Raises:
            MissingTargetError: the tree has no such team.
            PublishError: the feature is not the team's, or it is reinstated already.
            MetadataError: the team has reinstated more than one document holds.
        """
        role = layout.team_role(team)
        if not reinstate(role, self._own_team(role, item.feature), item):
            msg = f"halts of {item.feature} in {item.app} up to {item.serial} are reinstated already"
            raise PublishError(msg)

    def draft(self) -> SigningRequest:
        """Return the change, unsigned.

        Raises:
            PublishError: nothing would change, or a role would have fewer keys than have to sign.
        """
        roles: dict[str, Metadata[Root] | Metadata[Targets]] = {}
        if self._root is not None:
            for name in TOP_ROLES:
                _check_enough(name, self._root.roles[name])
            roles["root"] = Metadata(self._root)
        if self._targets is not None:
            for name, role in delegations(self._targets).items():
                _check_enough(name, role)
            roles["targets"] = Metadata(self._targets)
        for name, team in sorted(self._teams.items()):
            roles |= {name: Metadata(self._with_keys(name, team))} | self._bins(name, team)
        if not roles:
            msg = "nothing would change"
            raise PublishError(msg)
        return SigningRequest(roles, self._current(roles))

    def _current(self, roles: Mapping[str, object]) -> dict[str, Metadata[Root] | Metadata[Targets]]:
        if self._state is None:
            return {}
        current: dict[str, Metadata[Root] | Metadata[Targets]] = {
            "root": Metadata(self._state.root),
            "targets": Metadata(self._state.targets),
        }
        return current | {name: self._state.roles[name].metadata for name in roles if name in self._state.roles}

    def _next_root(self) -> Root:
        if self._root is None and self._state is not None:
            self._root = copy.deepcopy(self._state.root)
            self._root.version += 1
            self._root.expires = utc(self._now_s + layout.LIFETIMES_S["root"])
        assert self._root is not None  # noqa: S101 - a first change has one from its beginning
        return self._root

    def _next_targets(self) -> Targets:
        if self._targets is None and self._state is not None:
            self._targets = copy.deepcopy(self._state.targets)
            self._targets.version += 1
            self._targets.expires = utc(self._now_s + layout.LIFETIMES_S["targets"])
        assert self._targets is not None  # noqa: S101 - a first change has them from its beginning
        return self._targets

    def _next_team(self, role: str) -> None:
        if role not in self._teams and self._state is not None:
            team = copy.deepcopy(self._state.roles[role].metadata.signed)
            team.version += 1
            team.expires = utc(self._now_s + layout.TEAM_LIFETIME_S)
            self._teams[role] = team

    def _own_team(self, role: str, feature: str) -> Targets:
        """Return the next metadata of the team that owns a feature."""
        known = {} if self._state is None else delegations(self._state.targets)
        if role not in known:
            raise MissingTargetError(role)
        if f"{feature}/*.json" not in (known[role].paths or ()):
            msg = f"{role} does not own {feature}; it owns {', '.join(known[role].paths or ())}"
            raise PublishError(msg)
        if role not in self._teams:
            self._next_team(role)
            self._is_owner_alone.add(role)
        return self._teams[role]

    def _with_keys(self, role: str, team: Targets) -> Targets:
        """Let the team's bins be signed by the keys that the team has from now on."""
        succinct = None if team.delegations is None else team.delegations.succinct_roles
        targets = self._targets
        if succinct is not None and team.delegations is not None and targets is not None:
            owner = delegations(targets)[role]
            succinct.keyids, succinct.threshold = list(owner.keyids), owner.threshold
            team.delegations.keys = {keyid: targets.get_key(keyid) for keyid in owner.keyids}
        return team

    def _bins(self, role: str, team: Targets) -> dict[str, Metadata[Targets]]:
        if self._state is None or role in self._is_owner_alone:
            return {}
        found = {}
        for name in bins_of(team):
            signed = copy.deepcopy(self._state.roles[name].metadata.signed)
            signed.version += 1
            signed.expires = utc(self._now_s + layout.TEAM_LIFETIME_S)
            found[name] = Metadata(signed)
        return found

    def _delegate(self, targets: Targets, role: str, keys: Sequence[Key], paths: list[str]) -> None:
        # Terminating: nobody but its owner is ever asked about a path.
        delegated = DelegatedRole(role, [], 1, terminating=True, paths=paths)
        assert targets.delegations is not None  # noqa: S101 - the top role has delegated since the ceremony
        assert targets.delegations.roles is not None  # noqa: S101
        targets.delegations.roles[role] = delegated
        _change_keys(targets, role, add=keys, remove=(), threshold=1)

    def _expires(self, role: str) -> datetime:
        return utc(self._now_s + layout.LIFETIMES_S.get(role, layout.TEAM_LIFETIME_S))


def _paths(known: Mapping[str, DelegatedRole], team: str, features: Sequence[str]) -> list[str]:
    """Return the paths of features that nobody owns yet."""
    (checked,) = check_teams({team: tuple(features)}).values()
    paths = [f"{feature}/*.json" for feature in checked]
    for role, delegated in known.items():
        owned_paths = sorted(set(paths) & set(delegated.paths or ()))
        if owned_paths:
            msg = f"{role} owns {owned_paths[0].partition('/')[0]}; a feature belongs to one team"
            raise PublishError(msg)
    return paths


def _change_keys(
    delegator: Root | Targets, role: str, *, add: Sequence[Key], remove: Sequence[str], threshold: int | None
) -> None:
    delegated = delegator.get_delegated_role(role)
    for key in add:
        if key.keyid in delegated.keyids:
            msg = f"{role} has the key {key.keyid} already"
            raise PublishError(msg)
        if not isinstance(key, SSlibKey):
            msg = f"{role}: TUF clients know no key of the type {key.keytype!r}"
            raise PublishError(msg)
        delegator.add_key(key, role)
    for keyid in remove:
        if keyid not in delegated.keyids:
            msg = f"{role} has no key {keyid}; it has {', '.join(delegated.keyids)}"
            raise PublishError(msg)
        delegator.revoke_key(keyid, role)
    if threshold is not None:
        delegated.threshold = threshold


def _check_enough(name: str, role: Role) -> None:
    if not 1 <= role.threshold <= len(role.keyids) <= limits.KEYS_MAX:
        msg = (
            f"{name}: {role.threshold} of {len(role.keyids)} keys would have to sign; at least 1,"
            f" and of at most {limits.KEYS_MAX} keys"
        )
        raise PublishError(msg)
    if role.threshold > 1 and name in ("policy", "halt", "snapshot", "timestamp"):
        msg = f"{name}: {role.threshold} would have to sign each time; the server signs with one key"
        raise PublishError(msg)
