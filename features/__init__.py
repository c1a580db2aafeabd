"""The features that come with alcove, one folder each."""
