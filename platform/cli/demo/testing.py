"""Provides the demo's server for tests and benchmarks: both committed versions in a running experiment."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alcove.features.language_id.contract import program_path
from alcove.platform.cli.demo.catalog import LARGE, SMALL, release_version
from alcove.platform.cli.demo.environment import APP, FEATURE, TEAM, Places, Server, prepare
from alcove.platform.client import push_package
from alcove.platform.client.experiment_models import Arm
from alcove.registry.keys import load_signer
from alcove.registry.package import create_package

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alcove.platform.client.experiment_models import Experiment

VERSIONS = (SMALL, LARGE)


@dataclass(frozen=True)
class Environment:
    """A server process with a running experiment of the two committed versions."""

    places: Places
    server: Server
    experiment: Experiment


@contextmanager
def running_experiment() -> Iterator[Environment]:
    """Run a server in a folder of its own, with the committed programs as they are: nothing is exported again."""
    with tempfile.TemporaryDirectory(prefix="alcove-world-") as folder:
        places = Places(Path(folder))
        tokens = prepare(places)
        with Server(places) as server:
            signer = load_signer(places.team_key)
            with server.client(tokens.team) as team:
                for version in VERSIONS:
                    programs = {"int8": program_path(version).read_bytes()}
                    package = create_package(
                        feature=FEATURE, team=TEAM, version=version, programs=programs, card="# Card\n"
                    )
                    push_package(team, package, signer)
                    release_version(team, FEATURE, version)
            arms = [Arm(name=version, version=version, share_basis_points=5_000) for version in VERSIONS]
            with server.client(tokens.operator) as operator:
                draft = operator.create_experiment(APP, FEATURE, arms)
                experiment = operator.start_experiment(draft.experiment_id)
            yield Environment(places, server, experiment)
