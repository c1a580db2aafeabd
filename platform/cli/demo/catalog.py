"""Defines the versions of the demo: two trained versions of `language_id`, and one to be tampered with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alcove.features.language_id.contract import program_path
from alcove.platform.cli.demo.environment import FEATURE, TEAM
from alcove.platform.cli.demo.processes import DemoError
from alcove.registry.package import create_package

if TYPE_CHECKING:
    from alcove.platform.client import PlatformClient
    from alcove.registry.package import Package

SMALL, LARGE = "1.0.0", "4.1.0"
"""The committed programs, by the versions that they have in the features folder."""

TRIMMED, CUT_ROWS = "2.0.1", 0.02
"""The release that lacks the smallest rows of its table, and their part: 2 points less accurate (docs/decisions/0045).

Who trims a model wants to know what it costs."""

SPOILED = "2.1.0"
"""The release that answers with the neighbor's language: certified, signed, and wrong."""

NEXT = "2.1.1"
"""The release that an attacker reaches before the devices do."""


@dataclass(frozen=True)
class Release:
    """A version as the team publishes it: its number, which of the committed models it is made of, and a change.

    Attributes:
        version: its number.
        model: committed version that it is made of.
        is_spoiled: each language's scores go to its neighbor.
        cut_rows: part of the table's rows that are set to zero, the smallest ones.
    """

    version: str
    model: str
    is_spoiled: bool = False
    cut_rows: float = 0.0


def releases(*, is_swapped: bool) -> tuple[Release, Release]:
    """Return control and treatment; swapped, the larger model is the control."""
    models = (LARGE, SMALL) if is_swapped else (SMALL, LARGE)
    return Release("1.0.0", models[0]), Release("2.0.0", models[1])


def build_package(release: Release, *, certificate_texts: int | None = None) -> Package:
    """Export the release's torch module, certify it against eager torch, and make the package.

    Args:
        release: what to build.
        certificate_texts: number of samples to keep in the certificate, which makes the same model another program.
    """
    # torch takes seconds to load; a demo that stops before this line should not wait for it.
    from alcove.features.language_id.build import CERTIFICATE_TEXTS, compile_module, module_of_program  # noqa: PLC0415
    from alcove.runtime.program import Program  # noqa: PLC0415
    from torch import no_grad  # noqa: PLC0415

    path = program_path(release.model)
    module = module_of_program(Program(path.read_bytes()), release.model)
    if release.is_spoiled:  # each language's scores go to its neighbor, as when labels were sorted once too often
        with no_grad():
            for values in module.network.out.parameters():
                values.copy_(values.roll(1, dims=0))
    if release.cut_rows:
        with no_grad():
            table = module.network.table.weight
            sizes = table.norm(dim=1)
            table[sizes < sizes.quantile(release.cut_rows)] = 0
    program = compile_module(module, release.model, CERTIFICATE_TEXTS[:certificate_texts])
    card = (Path(path).parent.parent / "CARD.md").read_text(encoding="utf-8")
    return create_package(
        feature=FEATURE, team=TEAM, version=release.version, programs={"int8": bytes(program)}, card=card
    )


def release_version(team: PlatformClient, feature: str, version: str) -> None:
    """Have a version that was pushed validated, and release it: nothing else reaches devices.

    Raises:
        DemoError: a check failed.
        ClientError: the server refused.
    """
    _, validation = team.validate_version(feature, version)
    if not validation.is_passed:
        failed = [f"{check.name}: {check.figure}" for check in validation.checks if not check.is_passed]
        raise DemoError(f"{feature} {version} did not pass its validation: {'; '.join(failed)}")
    team.release_version(feature, version, reason="it passed every check")
