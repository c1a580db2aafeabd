"""Shows a product team its models on web pages, and acts for it, by gRPC calls with the caller's own rights.

A process of its own, kept by the server: a hundred viewers take no moment of the loop that answers calls.  It has no
key, no database and no tree; all that it knows comes from calls with the viewer's session.
"""

__all__: list[str] = []
