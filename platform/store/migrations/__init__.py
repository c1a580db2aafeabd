"""How does the schema get from any earlier state to the newest?  One revision a file in `versions/`."""
