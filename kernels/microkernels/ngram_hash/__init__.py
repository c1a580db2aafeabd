"""The `ngram_hash` operator: text to hashed n-gram ids, with the script that makes its character tables."""
