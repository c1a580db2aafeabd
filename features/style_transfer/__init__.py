"""Paints frames of a camera in the manner of a painting: network, losses, data and training."""
