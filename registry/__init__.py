"""Signed packages, the tree that devices read, and the policy that chooses among versions."""
