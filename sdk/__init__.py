"""TODO doc."""
