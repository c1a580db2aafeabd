"""Compiles the server's rows to the signed policy that devices read, and publishes it."""

from alcove.platform.domain.policy import compile_policy
from alcove.platform.services.policy.decide import decide_policy
from alcove.platform.services.policy.policy_publisher import PolicyPublisher

__all__ = ["PolicyPublisher", "compile_policy", "decide_policy"]
