"""Two policy documents, compared as text."""

import json

from alcove.platform.domain.document_difference import COMPARED_LINES, LINES_SHOWN, compare_documents, layout_document

from tests.registry.policies import policy, rollout, rules


def test_only_what_differs_is_shown() -> None:
    """Features that are equal have no line; each line says what it is."""
    before = policy(same=rules(), moved=rules(moving=rollout(1000)))
    after = policy(same=rules(), moved=rules(moving=rollout(2500)))
    lines = compare_documents(before.to_bytes(), after.to_bytes())
    assert lines is not None
    changed = [(line.kind, line.text.strip("+- ")) for line in lines if line.kind in ("added", "removed")]
    assert changed == [("removed", '"share_permyriad": 1000,'), ("added", '"share_permyriad": 2500,')]
    assert lines[0].kind == "place"
    assert compare_documents(before.to_bytes(), before.to_bytes()) == []
    assert json.loads(layout_document(before.to_bytes())) == json.loads(before.to_bytes())


def test_documents_that_take_too_long_are_not_compared() -> None:
    """The bound is on what is left after equal features, so that one change of a large policy is shown."""
    features = {f"f{number}": {"n": [number] * 10} for number in range(COMPARED_LINES)}
    old = json.dumps({"features": features}).encode()
    assert compare_documents(old, json.dumps({"features": {}}).encode()) is None
    few = {"features": features | {"f0": {"n": [1]}}}
    lines = compare_documents(old, json.dumps(few).encode())
    assert lines is not None
    assert 0 < len(lines) < LINES_SHOWN
