"""Prints the figures that the documents quote: `make bench`."""
