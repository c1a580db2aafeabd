"""Says what each verb of `alcove` is for, so that `alcove --help` loads none of them."""

from types import MappingProxyType
from typing import Final

__all__ = ["SUMMARIES"]

SUMMARIES: Final = MappingProxyType(
    {
        "serve": "Run the server; prints one line of JSON with its addresses when it answers.",
        "server": "Show how a server is; back up, restore and migrate its data, beside its data folder.",
        "demo": (
            "Show the main job, end to end: publish, try on devices, decide from private reports, "
            "ramp, refuse a forgery."
        ),
        "bench": (
            "Time programs on this machine, called from Python: p50, p95, cold load to the first answer, memory, size."
        ),
        "simulate": (
            "Simulate a rollout: how often harm is found, how soon, how often by mistake, and what it costs in privacy."
        ),
        "feature": "List the features that come with alcove, and try them on your own input.",
        "keys": "Make, show and change signing keys.",
        "access": "Say who may sign in to the console through OpenID Connect (beside the server's data folder).",
        "token": "Issue, renew, list and revoke API tokens (beside the server's data folder).",
        "audit": "Read the audit log.",
        "alert": "See what was sent of alerts, send it again, and try where they go.",
        "login": "Call a server once, and keep its address, certificates and token for the commands that follow.",
        "profile": "Servers that alcove login keeps by name.",
        "model": "Compile, inspect and run programs; push versions, find them again, release and revoke them.",
        "rollout": "Move an app's devices to a version, step by step.",
        "experiment": "Compare versions, decided by statistics over private reports.",
        "override": "Values on every device at once, over rollouts and experiments.",
        "metric": (
            "Metrics of your own: apps record them by name (handle.record), plans of rollouts and "
            "experiments name them."
        ),
        "layer": "Sets of experiments of an app that exclude each other.",
        "holdout": "Devices of an app that take part in no experiment.",
        "policy": "See the signed policies of an app, and what one of them changed.",
        "registry": "Maintain the signed tree, its blobs and the rows.",
        "aggregator": "Make and run the two aggregators of private telemetry.",
        "completion": ("Print a script that completes commands and options; a new version of alcove needs a new one."),
    }
)
"""First lines of the verbs' own help; a test compares them."""
