"""Checks that mobile architectures export and match torch's outputs: `python -m benchmarks.architectures`.

Small models with random weights that keep the structure of the originals: from `transformers` configurations, and in
plain torch after the papers' tables.
"""
