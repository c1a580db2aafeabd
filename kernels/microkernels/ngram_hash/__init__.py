"""Provides `ngram_hash`: text to hashed n-gram ids, with the script that makes its character tables."""
