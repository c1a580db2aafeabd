"""What does int8 cost on real data?  `python -m benchmarks.quantisation` measures two vision models and language_id.

Weights are trained by `python -m benchmarks.quantisation.train` (minutes on a GPU) and kept outside the repository.
"""
