"""Holds the revisions of the schema, one a file, in the order of their numbers."""
