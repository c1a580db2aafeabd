"""Measures how the time of single layers grows with their size, beside the peers."""
