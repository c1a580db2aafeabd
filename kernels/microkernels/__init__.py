"""Provides kernels that compute without calling another kernel, a folder each."""
