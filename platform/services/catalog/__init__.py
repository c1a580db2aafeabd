"""Changes published versions: their state, aliases, tags and validations.

states.py       release and deprecate
revocation.py   forbid a version in every app that uses it
aliases.py      moves of aliases, and their approval
tags.py         tags of versions
rules.py        the rules that versions of a feature must meet
validation.py   validation on the server

Transitions, bounds, names and search orders are pure and in `domain/catalog`.
"""
