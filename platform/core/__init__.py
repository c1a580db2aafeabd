"""Which words do all parts of the server share: errors, limits, time, records."""
