"""Makes the configurations of a leader, a helper and their collector, each in a folder of its own.

What two parties share is in both their folders and nowhere else: the leader and the helper the verification secret and
the leader's token, the leader and the collector the collector's token. The collector's private key is in its folder
alone, and the aggregators' HPKE keys are made by themselves, so no folder reads what another party's reads.
"""

import base64
import json
import secrets
from fractions import Fraction
from pathlib import Path
from typing import Final

from alcove.platform.aggregator.config import AggregatorConfig, CollectorKey, Seat
from alcove.platform.domain.errors import AggregatorFileError
from alcove.privacy import hpke
from alcove.privacy.dap.rules import MIN_BATCH_SIZE, MIN_WINDOW_S
from alcove.privacy.dap.task import VERIFY_KEY_BYTES
from alcove.registry.keys import write_private_file
from pydantic import SecretStr

__all__ = ["AGGREGATOR_FILE", "COLLECTOR_FILE", "create_pair"]

AGGREGATOR_FILE: Final = "aggregator.json"
COLLECTOR_FILE: Final = "collector.json"
_TOKEN_BYTES: Final = 32
_COLLECTOR_CONFIG_ID: Final = 0


def create_pair(
    folder: Path,
    leader_url: str,
    helper_url: str,
    *,
    min_batch_size: int = MIN_BATCH_SIZE,
    min_window_s: int = MIN_WINDOW_S,
    max_epsilon: Fraction = Fraction(2),
    token_issuer: str | None = None,
) -> dict[str, Path]:
    """Write leader/aggregator.json, helper/aggregator.json and collector/collector.json; return them by party.

    Args:
        folder: where the three folders are made; none of them may hold such a file.
        leader_url: below which the leader answers devices and the collector, as policies write it.
        helper_url: the same of the helper.
        min_batch_size: fewest reports of a batch that the aggregators take part in.
        min_window_s: shortest window, in seconds.
        max_epsilon: largest privacy loss of one window.
        token_issuer: below which the issuer answers whose tokens reports carry, as policies write it; None: they carry
            none.

    Raises:
        AggregatorFileError: there is a file already.
        pydantic.ValidationError: an argument is out of its bound.
        OSError: a file cannot be written.
    """
    private_key = hpke.generate_private_key()
    public_key = base64.b64encode(hpke.derive_public_key(private_key)).decode()
    collector_token = secrets.token_urlsafe(_TOKEN_BYTES)
    common = {
        "leader_url": leader_url,
        "helper_url": helper_url,
        "token_issuer": token_issuer,
        "verify_secret": SecretStr(base64.b64encode(secrets.token_bytes(VERIFY_KEY_BYTES)).decode()),
        "leader_token": SecretStr(secrets.token_urlsafe(_TOKEN_BYTES)),
        "collector": CollectorKey(config_id=_COLLECTOR_CONFIG_ID, public_key=public_key),
        "min_batch_size": min_batch_size,
        "min_window_s": min_window_s,
        "max_epsilon": str(max_epsilon),
    }
    leader = AggregatorConfig.model_validate(
        common | {"seat": Seat.LEADER, "collector_token": SecretStr(collector_token)}
    )
    helper = AggregatorConfig.model_validate(common | {"seat": Seat.HELPER})
    collector = {
        "leader_url": leader_url,
        "helper_url": helper_url,
        "min_batch_size": min_batch_size,
        "collector_token": collector_token,
        "private_key": base64.b64encode(private_key).decode(),
    } | ({} if token_issuer is None else {"token_issuer": token_issuer})
    contents = {
        "leader": (folder / "leader" / AGGREGATOR_FILE, leader.to_json()),
        "helper": (folder / "helper" / AGGREGATOR_FILE, helper.to_json()),
        "collector": (folder / "collector" / COLLECTOR_FILE, json.dumps(collector, indent=2)),
    }
    for path, _ in contents.values():
        if path.exists():
            raise AggregatorFileError(path, "there is one already: name another folder, or move it away")
    for path, text in contents.values():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private_file(path, text.encode() + b"\n")
    return {party: path for party, (path, _) in contents.items()}
