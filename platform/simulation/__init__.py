"""Simulates a rollout: virtual devices; the real policy, assignment, noise, statistics and rules.

scenario ─▶ run.py ─▶ per window: fleet.py (who reports what) ─▶ aggregation.py (noise) ─▶ analyze ─▶ decide ─▶
               transition └─ many runs ─▶ summary.py ─▶ table, JSON, plots.py
"""
