"""Generates hostile trees: whatever can be signed with some stolen keys, wherever it can be put.

`HostileTrees` holds one registry with a past (two states, minimum versions, bins, halts) and all of its keys.  From a
seed it makes a case: which keys are stolen, what is signed with them, what is served in which place, and in which
order a device reads.  `HostileTrees.audit` has a device read it, and tells what it took that these keys may not set:

- every role that is trusted says what its owner once signed, or its key is stolen; and anything but a timestamp needs
  the keys of snapshot and timestamp besides;
- only roles that the tree has are trusted, and none after its date;
- a manifest is one that its team published and not below the minimum version that the device can know; a policy and a
  halt are published ones, or by their stolen keys; on a device that knows more, no serial falls and nothing halted
  comes back.

Bytes are made from plain JSON, not with the library's classes, so that every field can say anything.  `Shadow` is the
one attack that got through before there were `rules.py`.
"""

from alcove.registry.hostile_trees.attacker import Shadow
from alcove.registry.hostile_trees.audit import HostileTrees, run_cases

__all__ = ["HostileTrees", "Shadow", "run_cases"]
