"""A server's aggregators are read from a file, and what is wrong with it is named."""

import json
from pathlib import Path
from typing import Any

import pytest
from alcove.platform.domain.errors import AggregatorFileError
from alcove.platform.server.aggregators import read_aggregators

GOOD: dict[str, Any] = {
    "leader_url": "https://leader.example/dap",
    "helper_url": "https://helper.example",
    "min_batch_size": 1000,
}


def test_file_names_two_aggregators(tmp_path: Path) -> None:
    """The local floor may be left out."""
    path = tmp_path / "aggregators.json"
    path.write_text(json.dumps(GOOD))
    assert read_aggregators(path).model_dump() == GOOD | {"local_epsilon": None}
    path.write_text(json.dumps(GOOD | {"local_epsilon": "3"}))
    assert read_aggregators(path).local_epsilon == "3"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "No such file"),
        ("{", "Invalid JSON"),
        ("[]", "the file: Input should be"),
        (json.dumps({}), "leader_url: Field required"),
        (json.dumps(GOOD | {"min_batch_size": 99}), "min_batch_size"),
        (json.dumps(GOOD | {"leader_url": "http://leader.example"}), "leader_url: http:// is for loopback"),
        (json.dumps(GOOD | {"helper_url": GOOD["leader_url"]}), "the file: leader and helper have different origins"),
        (json.dumps(GOOD | {"collector_key": "x"}), "collector_key: Extra inputs"),
    ],
)
def test_file_that_is_none_is_refused_by_what_is_wrong(tmp_path: Path, content: str | None, problem: str) -> None:
    """The error names the file and the field."""
    path = tmp_path / "aggregators.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(AggregatorFileError, match=r"aggregators\.json: ") as caught:
        read_aggregators(path)
    assert caught.value.path == path
    assert problem in caught.value.problem
