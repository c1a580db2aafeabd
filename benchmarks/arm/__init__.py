"""Counts what runs execute on 64-bit ARM in an emulator, beside the peers, and models the cycles of inner loops."""
