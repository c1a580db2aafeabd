"""Runs our client as the public conformance suite for TUF clients calls it: a program with three commands.

    conformance_client.py --metadata-dir DIR init ROOT
    conformance_client.py --metadata-dir DIR --metadata-url URL refresh
    conformance_client.py --metadata-dir DIR --metadata-url URL --target-name PATH [--target-name PATH ...]
                          --target-base-url URL --target-dir DIR download

Targets are fetched in their order by one client, up to the first that is refused. The exit status is 0 for success and
1 for any refusal. Behind it is what a device uses, with all its bounds: the SDK's one way to the network and the
registry's `RepositoryClient`, but for the rules of our own tree (`registry/rules.py`): they allow less than the
standard does, and most scenarios would break them. The suite looks at the metadata by its usual names, so the client's
own folder, `DIR/.alcove`, keeps them in `DIR` through a link.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote, urlsplit

from alcove.registry import limits
from alcove.registry.client import RepositoryClient
from alcove.registry.errors import RegistryError
from alcove.registry.updater import BoundedUpdater
from alcove.runtime.clock import SYSTEM_CLOCK, Clock
from alcove.sdk.egress import Egress, TufFetcher

OWN = ".alcove"


class AnyTreeClient(RepositoryClient):
    """Reads any tree that the specification allows: without the rules that our own tree keeps besides."""

    _reader = BoundedUpdater


def main(arguments: Sequence[str] | None = None, clock: Clock = SYSTEM_CLOCK) -> int:
    """Carry out one command; return 0, or 1 where the client refused.

    Args:
        arguments: the command line without the program; this process's own if omitted.
        clock: judges dates.
    """
    options = _options(arguments)
    own = options.metadata_dir / OWN
    if options.command == "init":
        own.mkdir()
        (own / "tuf").symlink_to("..")
        (own / "trusted.json").write_bytes(options.root.read_bytes())
        return 0
    address = urlsplit(options.metadata_url)
    server = f"{address.scheme}://{address.netloc}"
    egress = Egress(server)
    try:
        client = AnyTreeClient(
            own,
            TufFetcher(egress, server),
            options.metadata_url.rstrip("/").removesuffix("/metadata"),
            (own / "trusted.json").read_bytes(),
            clock=clock,
        )
        client.refresh()
        for name in options.target_name if options.command == "download" else ():
            client.target(name, options.target_dir / quote(name, safe=""), limits.MANIFEST_MAX_BYTES)
    except RegistryError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1
    finally:
        egress.close()
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--metadata-dir", type=Path, required=True)
    parser.add_argument("--metadata-url")
    parser.add_argument("--target-name", action="append", default=[])
    parser.add_argument("--target-base-url")
    parser.add_argument("--target-dir", type=Path)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("init").add_argument("root", type=Path)
    commands.add_parser("refresh")
    commands.add_parser("download")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
