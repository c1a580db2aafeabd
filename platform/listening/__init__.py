"""Listens to strangers: sockets, limits on connections and rates, and processes that a server keeps."""
