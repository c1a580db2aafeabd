"""Runs one device of the demo in a process of its own: a real `alcove.sdk.Client` with its own data folder.

`python -m alcove.platform.cli.demo.device --data-dir … --server … --root … --baseline … --number 3` reads commands from
standard input and answers each with one line of JSON on standard output.  The line is how the demo looks at the device;
it never holds what the person wrote.

    {"do": "read", "count": 5}    the person types, the feature answers, the person accepts the first guess or not
    {"do": "sync"}                check in: static files only
    {"do": "report"}              send the one private report of the window
    {"do": "status"}              the process, to see that it is the same one
    {"do": "stop"}
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alcove.platform.cli.demo.actors import Person, load_sentences
from alcove.platform.cli.demo.clock import DemoClock
from alcove.platform.issuer.attestation import make_software_evidence
from alcove.sdk import AggregatorPair, Client
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

if TYPE_CHECKING:
    from alcove.sdk.tokens import Attestation


@dataclass(frozen=True)
class Reading:
    """Counts of the device's predictions while the person wrote."""

    texts: int
    accepted: int
    right_when_whole: int
    version: str
    reason: str
    latency_ms: float
    errors: int


class Device:
    """A client and the person who uses it."""

    def __init__(self, client: Client, person: Person) -> None:
        self._client = client
        self._person = person
        self._language_id = client.feature("language_id")

    def read(self, count: int) -> dict[str, Any]:
        """Let the person write `count` sentences and judge each first guess; returns counts and the median latency."""
        accepted = right_when_whole = 0
        answers = []
        for _ in range(count):
            typing = self._person.write()
            guess = self._language_id.predict(typing.opening)
            is_accepted = guess.value is not None and guess.value.language == typing.language
            self._language_id.record_outcome(accepted=is_accepted)
            whole = self._language_id.predict(typing.whole)
            accepted += is_accepted
            right_when_whole += whole.value is not None and whole.value.language == typing.language
            answers += [guess, whole]
        errors = sum(answer.error is not None for answer in answers)
        middle = sorted(answer.latency_ms for answer in answers)[len(answers) // 2]
        last = answers[-1]
        return asdict(Reading(count, accepted, right_when_whole, last.version, last.reason, middle, errors))

    def sync(self) -> dict[str, Any]:
        """Check in, and tell what changed, what it cost and what was refused."""
        result = self._client.sync()
        return {
            "bytes_received": result.bytes_received,
            "bytes_sent": result.bytes_sent,
            "error": type(result.error).__name__ if result.error else None,
            "message": str(result.error) if result.error else None,
        }

    def report(self) -> dict[str, Any]:
        """Send the window's report, if the device takes part in an experiment."""
        result = self._client.report()
        return {"sent": result.sent, "error": type(result.error).__name__ if result.error else None}

    def status(self) -> dict[str, Any]:
        """Tell which process this is, and which version answers."""
        return {"pid": os.getpid(), "version": self._language_id.version}

    def privacy(self) -> dict[str, Any]:
        """Tell what has left this device so far."""
        return self._client.privacy_summary().to_json()


def _make_attestation(key: Path, data_dir: Path) -> Attestation:
    """Return what says, as the device's platform would, that this is the genuine app on a genuine device."""
    vendor = Ed25519PrivateKey.from_private_bytes(key.read_bytes())
    installation = hashlib.sha256(str(data_dir).encode()).digest()
    return lambda digest: make_software_evidence(vendor, installation, digest)


def main() -> None:
    """Serve commands until `stop` or the end of input."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--app", default="messenger")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--server", required=True)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--baseline", type=Path, required=True)
    parser.add_argument(
        "--number", type=int, required=True, help="Number of the device, from which its person's behavior is drawn."
    )
    parser.add_argument("--clock", type=Path, help="file of the demo's clock; the system's if it is not given")
    parser.add_argument("--attestation-key", type=Path, help="software attestor's private key, the phone's maker here")
    parser.add_argument("--leader", help="address of the leader that the app trusts, with --helper")
    parser.add_argument("--helper", help="address of the helper")
    parser.add_argument("--canary", default="", help="text added to everything the person writes (egress tests)")
    given = parser.parse_args()
    client = Client(
        app=given.app,
        data_dir=given.data_dir,
        server=given.server,
        trusted_root=given.root,
        baselines={"language_id": given.baseline},
        clock=None if given.clock is None else DemoClock(given.clock),
        aggregators=() if given.leader is None else [AggregatorPair(given.leader, given.helper)],
        attestation=None if given.attestation_key is None else _make_attestation(given.attestation_key, given.data_dir),
    )
    device = Device(client, Person(given.number, load_sentences(), canary=given.canary))
    for line in sys.stdin:
        command = json.loads(line)
        do = command.pop("do")
        if do == "stop":
            break
        answer = getattr(device, do)(**command)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
