"""Generates random modules from a seed, exports and runs them at every size, and compares them with eager."""
