"""Starts read-outs of apps' holdouts, ends them and keeps what they found."""
