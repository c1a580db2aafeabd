"""Audits the privacy of two aggregators: what they release, and what can be read in them, on the product's own code."""
