"""Holds what all rings of the platform share: the log, traces, and settings from a command line."""
