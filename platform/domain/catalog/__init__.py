"""Defines versions in the catalog: their states, names, searches and validation."""
