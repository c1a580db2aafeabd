"""Forecasts what a rollout or an experiment would find, when, and with how many devices.  Pure; nothing is refused."""
