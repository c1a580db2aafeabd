"""How does time grow with the size of the work?  Curves of one layer each, beside the peers."""
