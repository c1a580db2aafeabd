"""Native operators: a scalar reference and faster rivals per instruction set, listed in one manifest."""
