"""Defines experiments: their states, plans, schedules and tasks."""
