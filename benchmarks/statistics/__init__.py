"""Checks the statistics' promises on simulated fleets whose truth is known, read by the code that decides."""
