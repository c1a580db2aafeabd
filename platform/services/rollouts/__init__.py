"""Rolls a version out to the devices of an app, step by step and under guardrails."""
