"""Provides the two aggregators of private telemetry: leader and helper, each a process with keys and rows of its own.

    devices ── upload ──▶ leader ── aggregation jobs ──▶ helper
                            ▲  ◀──────── aggregate share ──┘
    collector ─ collection ─┘

`uploads`, `aggregation` and `collection` are the leader's; `helper` is the helper's; `tasks`, `batches` and `keys` are
used by both. Each releases only noised sums, once a batch. docs/dap.md says what of the protocol is here.
"""
