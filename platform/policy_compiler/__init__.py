"""Compiles the server's rows to the signed policy that devices read, and publishes it."""

from alcove.platform.policy_compiler.compiler import compile_policy
from alcove.platform.policy_compiler.decide import decide_halt, decide_policy
from alcove.platform.policy_compiler.publisher import Publisher

__all__ = ["Publisher", "compile_policy", "decide_halt", "decide_policy"]
