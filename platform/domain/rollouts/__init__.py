"""Defines rollouts: their states, plans, tasks and decisions."""
