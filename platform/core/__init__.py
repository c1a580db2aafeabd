"""Holds what all parts of the server share: errors, limits, records, checks of values, settings, logs and traces."""
