"""Does what the statistics promise hold?  Simulated fleets whose truth is known, read by the code that decides."""
