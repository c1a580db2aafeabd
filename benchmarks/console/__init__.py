"""Measures the console over a server with as many versions, experiments and rollouts as a large team has."""
