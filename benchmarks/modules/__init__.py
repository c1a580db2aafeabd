"""Random modules: made from a seed, exported, run at every size, compared with eager."""
