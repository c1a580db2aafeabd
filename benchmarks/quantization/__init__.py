"""Measures what int8 costs two vision models and language_id on real data: `python -m benchmarks.quantization`.

Weights are trained by `python -m benchmarks.quantization.train` (minutes on a GPU) and kept outside the repository.
"""
