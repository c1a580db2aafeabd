"""Parts of the walk that `lower.py` makes over a torch graph: what it knows, masks, control flow."""
