"""Validates and sets a feature's rules: bounds on its programs, and which steps need an approval or a release."""

import math
from dataclasses import asdict, replace

from alcove.platform.domain import limits
from alcove.platform.domain.catalog_records import FeatureRules
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.store.catalog import add_rules, rules_of
from alcove.platform.store.unit_of_work import UnitOfWork

__all__ = ["set_rules", "validate_rules"]

_BYTES_MAX = 2**40  # as a manifest's memory ceiling
_LATENCY_MAX_MS = 600_000.0  # ten minutes
_OP_LENGTH = 64  # characters


def validate_rules(rules: FeatureRules) -> FeatureRules:
    """Return the rules, operators sorted.

    Raises:
        InvalidFieldError: a field is out of its bounds.
    """
    for field in ("max_size_bytes", "max_memory_bytes"):
        if not 0 <= getattr(rules, field) <= _BYTES_MAX:
            raise InvalidFieldError(f"rules.{field}", f"0 to {_BYTES_MAX}", getattr(rules, field))
    if not (math.isfinite(rules.max_latency_ms) and 0 <= rules.max_latency_ms <= _LATENCY_MAX_MS):
        raise InvalidFieldError("rules.max_latency_ms", f"0 to {_LATENCY_MAX_MS:g}", rules.max_latency_ms)
    if len(rules.allowed_ops) > limits.ALLOWED_OPS_MAX:
        raise InvalidFieldError("rules.allowed_ops", f"at most {limits.ALLOWED_OPS_MAX}", len(rules.allowed_ops))
    for name in rules.allowed_ops:
        if not name.isidentifier() or len(name) > _OP_LENGTH:
            raise InvalidFieldError("rules.allowed_ops", "names of operators (alcove model inspect)", name)
    if len(set(rules.allowed_ops)) != len(rules.allowed_ops):
        raise InvalidFieldError("rules.allowed_ops", "each operator once", sorted(rules.allowed_ops))
    return replace(rules, allowed_ops=tuple(sorted(rules.allowed_ops)), set_by="", set_at_s=0)


async def set_rules(uow: UnitOfWork, feature: str, rules: FeatureRules) -> FeatureRules:
    """Set all rules of a feature from now on; what was validated or released before stays so.

    Raises:
        InvalidFieldError: a field is out of its bounds.
    """
    before = await rules_of(uow.session, feature)
    after = replace(validate_rules(rules), set_by=uow.principal, set_at_s=uow.now_s)
    await add_rules(uow.session, feature, after)
    details = {name: value for name, value in asdict(after).items() if value != asdict(before)[name]}
    await uow.audit("set rules", feature, **{name: details[name] for name in details if name not in _WHO})
    return after


_WHO = ("set_by", "set_at_s")
