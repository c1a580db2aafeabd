"""Native operators: a scalar reference and optimized kernels for each instruction set, listed in one manifest."""
