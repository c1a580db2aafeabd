"""Configurations of aggregators and collector are files that only their owner reads, or they are refused by name."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from alcove.platform.aggregator.collector import read_collector_config
from alcove.platform.aggregator.config import Seat, read_config
from alcove.platform.aggregator.provisioning import create_pair
from alcove.platform.domain.errors import AggregatorFileError
from alcove.platform.server import serve
from alcove.platform.server.settings import Settings
from alcove.registry.errors import KeyFileError
from pydantic import ValidationError

LEADER, HELPER = "https://leader.example/dap", "https://helper.example"
SECRETS = ("verify_secret", "leader_token", "collector_token", "private_key")


@pytest.fixture
def pair(tmp_path: Path) -> dict[str, Path]:
    """The files of the three parties."""
    return create_pair(tmp_path / "pair", LEADER, HELPER, min_batch_size=1000)


def test_three_parties_get_what_they_share_and_no_more(pair: dict[str, Path]) -> None:
    """The aggregators share a secret and a token, leader and collector another token; the key is the collector's."""
    leader, helper = read_config(pair["leader"]), read_config(pair["helper"])
    collector = read_collector_config(pair["collector"])
    assert (leader.seat, helper.seat) == (Seat.LEADER, Seat.HELPER)
    assert leader.secret == helper.secret
    assert leader.leader_token == helper.leader_token
    assert leader.collector_token == collector.collector_token
    assert helper.collector_token is None
    assert leader.collector == helper.collector
    assert collector.aggregation.model_dump() == {
        "leader_url": LEADER,
        "helper_url": HELPER,
        "min_batch_size": 1000,
        "local_epsilon": None,
    }
    fields = {party: json.loads(path.read_text()) for party, path in pair.items()}
    assert [{name for name in SECRETS if name in each} for each in fields.values()] == [
        {"verify_secret", "leader_token", "collector_token"},
        {"verify_secret", "leader_token"},
        {"collector_token", "private_key"},
    ]
    with pytest.raises(AggregatorFileError, match="there is one already"):
        create_pair(pair["leader"].parent.parent, LEADER, HELPER)


def test_issuer_of_tokens_is_in_the_configuration_of_all_three(tmp_path: Path) -> None:
    """The collector's task names it, and each aggregator refuses a task that names another."""
    pair = create_pair(tmp_path, LEADER, HELPER, token_issuer="https://issuer.example/tokens")
    named = [read_config(pair["leader"]), read_config(pair["helper"]), read_collector_config(pair["collector"])]
    assert {each.token_issuer for each in named} == {"https://issuer.example/tokens"}
    with pytest.raises(ValidationError, match="issuer"):
        create_pair(tmp_path / "other", LEADER, HELPER, token_issuer="http://issuer.example")


def test_server_that_issues_other_tokens_than_its_aggregators_take_does_not_start(tmp_path: Path) -> None:
    """The address is in the error; a server that issues none collects by another's tokens."""
    pair = create_pair(tmp_path, LEADER, HELPER, token_issuer="https://issuer.example/tokens")
    common = {"data_dir": tmp_path, "online_keys": tmp_path, "aggregators": pair["collector"]}
    assert serve._read_aggregators(Settings.model_validate(common)) is not None
    own = {"token_issuer": "https://server.example/tokens", "software_attestation": tmp_path / "vendor.pem"}
    with pytest.raises(AggregatorFileError, match=r"server\.example"):
        serve._read_aggregators(Settings.model_validate(common | own))


def test_addresses_are_spelled_as_policies_spell_them(tmp_path: Path) -> None:
    """One spelling: what a policy could not name, no aggregator answers to."""
    for leader, helper in (
        ("https://leader.example/", HELPER),
        ("http://leader.example", HELPER),
        ("https://Leader.example", HELPER),
        (LEADER, "https://leader.example/other"),
    ):
        with pytest.raises(ValidationError):
            create_pair(tmp_path / "pair", leader, helper)
    assert not (tmp_path / "pair").exists()


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "leader_url": ({"leader_url": "http://leader.example"}, "http:// is for loopback"),
    "helper_url": ({"helper_url": "https://leader.example/x"}, "different origins"),
    "min_batch_size": ({"min_batch_size": 99}, "min_batch_size"),
    "seat": ({"seat": "collector"}, "seat"),
    "verify_secret": ({"verify_secret": base64.b64encode(bytes(31)).decode()}, "verify_secret"),
    "leader_token": ({"leader_token": "short"}, "leader_token"),
    "collector_token": ({"collector_token": None}, "collector_token"),
    "collector": ({"collector": {"config_id": 0, "public_key": "AA=="}}, "collector"),
    "min_window_s": ({"min_window_s": 60}, "min_window_s"),
    "max_epsilon": ({"max_epsilon": "0"}, "max_epsilon"),
    "more": ({"more": 1}, "more"),
}


@pytest.mark.parametrize("name", WRONG)
def test_configuration_out_of_its_bounds_is_refused_by_the_field_and_never_shown(
    pair: dict[str, Path], name: str
) -> None:
    """The error names file and field; no secret of the file is in it."""
    change, problem = WRONG[name]
    fields = json.loads(pair["leader"].read_text()) | change
    pair["leader"].write_text(json.dumps(fields))
    with pytest.raises(AggregatorFileError, match=problem) as caught:
        read_config(pair["leader"])
    assert caught.value.path == pair["leader"]
    assert not any(str(fields[secret]) in str(caught.value) for secret in SECRETS if fields.get(secret))


@pytest.mark.parametrize(
    ("content", "problem"),
    [("{", "Invalid JSON"), ("[]", "the file: Input should be"), ("{}", "Field required"), ("", "Invalid JSON")],
)
def test_file_that_is_none_is_refused(pair: dict[str, Path], content: str, problem: str) -> None:
    """Whatever it holds."""
    pair["collector"].write_text(content)
    with pytest.raises(AggregatorFileError, match=problem):
        read_collector_config(pair["collector"])


def test_key_of_a_collector_that_is_none_is_refused(pair: dict[str, Path]) -> None:
    """A key of another size, and text that is no base64."""
    fields = json.loads(pair["collector"].read_text())
    for key in ("AA==", "no base64!"):
        pair["collector"].write_text(json.dumps(fields | {"private_key": key}))
        with pytest.raises(AggregatorFileError, match="private_key"):
            read_collector_config(pair["collector"])


def test_files_that_others_may_read_or_that_are_absent_are_refused(pair: dict[str, Path]) -> None:
    """A file of secrets is its owner's."""
    for party in ("leader", "collector"):
        read = read_config if party == "leader" else read_collector_config
        pair[party].chmod(0o640)
        with pytest.raises(KeyFileError, match="0640"):
            read(pair[party])
        pair[party].unlink()
        with pytest.raises(KeyFileError):
            read(pair[party])
