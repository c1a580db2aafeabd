"""A small world for the demo's tests: a real server process with two published versions, and a running experiment."""

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from alcove.features.language_id.contract import program_path
from alcove.platform.cli.demo.world import APP, FEATURE, TEAM, Places, Server, prepare
from alcove.platform.client import push_package
from alcove.platform.client.models import Arm, Experiment
from alcove.registry.keys import load_signer
from alcove.registry.package import create_package


@dataclass(frozen=True)
class World:
    """A server with a running experiment of the two committed versions."""

    places: Places
    server: Server
    experiment: Experiment


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """Both committed programs published by their team; an experiment of the two runs."""
    with tempfile.TemporaryDirectory(prefix="alcove-test-") as folder:
        places = Places(Path(folder))
        tokens = prepare(places)
        with Server(places) as server:
            signer = load_signer(places.team_key)
            with server.client(tokens.team) as team:
                for version in ("1.0.0", "2.0.0"):
                    programs = {"int8": program_path(version).read_bytes()}
                    package = create_package(
                        feature=FEATURE, team=TEAM, version=version, programs=programs, card="# Card\n"
                    )
                    push_package(team, package, signer)
            arms = [Arm(name=v, version=v, share_permyriad=5_000) for v in ("1.0.0", "2.0.0")]
            with server.client(tokens.operator) as operator:
                draft = operator.create_experiment(APP, FEATURE, arms, epsilon="2", latency_edges_ms=(0.1,))
                yield World(places, server, operator.start_experiment(draft.experiment_id))


@pytest.fixture
def environment() -> dict[str, str]:
    """This process's environment, for the programs that tests start."""
    return dict(os.environ)
