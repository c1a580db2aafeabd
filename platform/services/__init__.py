"""Holds the use cases: each changes the store in one transaction and publishes what it decided."""
