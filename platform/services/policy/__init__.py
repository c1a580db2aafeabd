"""Compiles the server's rows to the signed policy that devices read, and publishes it."""

from alcove.platform.domain.policy import compile_policy
from alcove.platform.services.policy.decide import decide_policy
from alcove.platform.services.policy.publisher import Publisher

__all__ = ["Publisher", "compile_policy", "decide_policy"]
