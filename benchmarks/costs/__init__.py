"""Measures and fits the costs by which the exporter chooses between forms of convolutions."""
