"""Do the mobile architectures export, and give the same numbers?  `python -m benchmarks.architectures` tries each.

Small models with random weights that keep the structure of the originals: from `transformers` configurations, and in
plain torch after the papers' tables.
"""
