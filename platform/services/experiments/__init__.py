"""Compares versions in experiments, and evaluates what private reports say about them."""
