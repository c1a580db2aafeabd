"""Measures how many words near languages share: what nobody can tell apart by the word alone."""

from collections.abc import Mapping, Sequence, Set


def shared_words(words: Mapping[str, Set[str]], groups: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return the share of a language's words that another language of its group has too, in [0, 1], by the group.

    Args:
        words: distinct words by language.
        groups: codes of languages; each language of a group counts the same.  Groups of one, or with fewer than two
            languages that have words, are left out.
    """
    found = {}
    for group in groups:
        own = [words[code] for code in group if words.get(code)]
        if len(own) < 2:
            continue
        shares = []
        for i, mine in enumerate(own):
            others: set[str] = set().union(*(theirs for j, theirs in enumerate(own) if j != i))
            shares.append(len(mine & others) / len(mine))
        found[", ".join(group)] = round(sum(shares) / len(shares), 4)
    return found
