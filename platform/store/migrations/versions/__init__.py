"""Which revisions are there?  In order: v0001_initial, v0002_catalog."""
