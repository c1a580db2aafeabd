"""Measures what int8 costs two vision models and language_id on real data: `python -m benchmarks.quantisation`.

Weights are trained by `python -m benchmarks.quantisation.train` (minutes on a GPU) and kept outside the repository.
"""
