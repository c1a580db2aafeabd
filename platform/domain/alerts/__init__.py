"""Alerts: what happened that a person should hear of, in words and as an event.  Pure."""
