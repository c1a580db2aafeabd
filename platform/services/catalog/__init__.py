"""What becomes of a version after it was published: its state, aliases, tags, validations, and how it is found again.

lifecycle.py    states and the arrows between them; pure
states.py       release, deprecate
revocation.py   forbid a version in every app that uses it
aliases.py      moves of aliases, and their approval
tags.py         words about versions
rules.py        the rules that versions of a feature must meet
validation.py   figures and their bounds; pure except the runtime
compatibility.py  does an app that calls one version break with another; pure
validation.py   validation on the server
diff.py         what differs between two versions or programs
search.py       filters, orders and page tokens; pure
names.py        what aliases and tags may be called
"""
