"""Shows how two versions of a feature differ: sizes, downloads, time, operators, weights, signature, lineage, card."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from aiohttp import web
from alcove.platform.client import PlatformClient, Version, VersionDetails
from alcove.platform.console.pages.features import FEATURE
from alcove.platform.console.pages.page import Answer, Pages
from alcove.platform.console.pages.versions import VERSION
from alcove.platform.console.programs.opener import PROGRAMS, ProgramNotShownError, VariantProgram, variants_of
from alcove.platform.console.tables import Column, Table
from alcove.platform.inspection.diff import Figure, ProgramFigures, Side, VariantDiff, VersionDiff, compare
from alcove.registry.manifest import Manifest

__all__ = ["routes"]

WEIGHTS_SHOWN: Final = 50


@dataclass(frozen=True)
class _Figure:
    """One figure of two versions; None: one of them has none."""

    name: str
    left: float | None
    right: float | None
    kind: str = "bytes"

    @property
    def change(self) -> float | None:
        """What the right one has more."""
        return None if self.left is None or self.right is None else self.right - self.left


@dataclass(frozen=True)
class _Weight:
    """A weight whose content differs.

    Attributes:
        left_bytes, right_bytes: None: that side has none of this name.
        change: ‖right - left‖ / ‖left‖ in percent; None: its numbers are not compared.
    """

    name: str
    left_bytes: float | None
    right_bytes: float | None
    change: float | None


@dataclass(frozen=True)
class _Pair:
    """Two programs for the same kind of device, and how they differ; `problem` says why that is not known."""

    left: VariantProgram
    right: VariantProgram
    diff: VariantDiff | None
    changes: dict[str, float | None]
    problem: str = ""

    @property
    def name(self) -> str:
        """Name of the variant, or both names."""
        left, right = self.left.variant, self.right.variant
        return left if left == right else f"{left} → {right}"


def routes(pages: Pages) -> list[web.RouteDef]:
    """Return the routes of this area."""

    async def show(request: web.Request) -> Answer:
        feature, left = request.match_info["feature"], request.match_info["version"]
        right = request.query.get("with", "")
        both = await pages.ask(request, lambda client: _read_two(client, feature, left, right))
        whole, pairs, problem = await _compare(request, pages, *both)
        path = f"/features/{feature}/versions/{left}/compare"
        table = _table(both, path)
        context = {
            "feature": feature,
            "left": left,
            "right": right,
            "table": table,
            "details": both,
            "whole": whole,
            "problem": problem,
            "programs": [(pair, _ops(pair, both, path), _weights(pair, both, path)) for pair in pairs],
        }
        data = {"feature": feature, "left": left, "right": right, "differences": whole and asdict(whole)}
        changes = {pair.name: pair.changes for pair in pairs}
        problems = {pair.name: pair.problem for pair in pairs if pair.problem}
        more = {"relative_weight_changes": changes, "problems": problems}
        return Answer("versions/compare.html", context, data | more | table.to_json())

    return pages.routes(f"/features/{FEATURE}/versions/{VERSION}/compare", show)


def _read_two(client: PlatformClient, feature: str, left: str, right: str) -> tuple[VersionDetails, VersionDetails]:
    return client.version_details(feature, version=left), client.version_details(feature, version=right)


async def _compare(
    request: web.Request, pages: Pages, left: VersionDetails, right: VersionDetails
) -> tuple[VersionDiff | None, list[_Pair], str]:
    """Open the programs that both have, and compare; also where some cannot be opened."""
    try:
        sides = [variants_of(details) for details in (left, right)]
    except ProgramNotShownError as error:
        return None, [], error.reason
    found: list[dict[str, ProgramFigures]] = [{}, {}]
    pairs: list[_Pair] = []
    for old, new in _pairs(*sides):
        try:
            answer = await request.app[PROGRAMS].comparison(lambda work: pages.ask(request, work), old, new)
        except ProgramNotShownError as error:
            pairs.append(_Pair(old, new, None, {}, error.reason))
            continue
        for programs, side, program, details in zip(found, ("left", "right"), (old, new), (left, right), strict=True):
            programs[program.variant] = ProgramFigures(
                **answer[side] | {"latency_ms": _latency(details.version, program.variant)}
            )
        pairs.append(_Pair(old, new, None, answer["changes"]))
    named = [_side(details, programs) for details, programs in zip((left, right), found, strict=True)]
    whole = compare(*named)
    diffs = {diff.variant: diff for diff in whole.variants}
    return whole, [_Pair(one.left, one.right, diffs.get(one.name), one.changes, one.problem) for one in pairs], ""


def _pairs(
    left: dict[str, VariantProgram], right: dict[str, VariantProgram]
) -> list[tuple[VariantProgram, VariantProgram]]:
    """Return programs of one name, or the only two whatever their names."""
    if len(left) == len(right) == 1:
        return [(next(iter(left.values())), next(iter(right.values())))]
    return [(left[name], right[name]) for name in left if name in right]


def _side(details: VersionDetails, programs: dict[str, ProgramFigures]) -> Side:
    manifest = Manifest.from_bytes(details.manifest)
    lineage = {} if manifest.lineage is None else manifest.lineage.model_dump()
    return Side(details.version.version, details.card, manifest.signature, programs, lineage)


def _latency(version: Version, variant: str) -> float | None:
    return next((one.latency_ms for one in version.latencies if one.variant == variant), None)


def _table(both: Sequence[VersionDetails], path: str) -> Table[_Figure]:
    """Return sizes, memory, downloads and times, variant by variant."""
    left, right = (details.version for details in both)
    figures: list[_Figure] = []
    sides = [{one.name: one for one in version.variants} for version in (left, right)]
    for name in sorted(sides[0].keys() | sides[1].keys()):
        for field, words in (("size_bytes", "size"), ("memory_ceiling_bytes", "memory of a run")):
            values = [None if name not in side else getattr(side[name], field) for side in sides]
            figures.append(_Figure(f"{name}: {words}", values[0], values[1]))
        times = [_latency(version, name) for version in (left, right)]
        if any(time is not None for time in times):
            figures.append(_Figure(f"{name}: a run on the server, at validation", times[0], times[1], "ms"))
    return Table(
        "comparison",
        f"{left.feature} {left.version} beside {right.version}",
        (
            Column("figure", "Figure", lambda one: one.name),
            Column("left", left.version, lambda one: one.left, "figure"),
            Column("right", right.version, lambda one: one.right, "figure"),
            Column("change", "Change", lambda one: one.change, "figure"),
        ),
        figures,
        path,
    )


def _ops(pair: _Pair, both: Sequence[VersionDetails], path: str) -> Table[Figure]:
    return Table(
        f"operators-{pair.left.variant}",
        f"{pair.name}: operators that occur more or less often",
        (
            Column("operator", "Operator", lambda one: one.what),
            Column("left", both[0].version.version, lambda one: one.left, "number"),
            Column("right", both[1].version.version, lambda one: one.right, "number"),
            Column("change", "Change", lambda one: one.change, "number"),
        ),
        () if pair.diff is None else pair.diff.ops,
        path,
        empty="Both have the same operators, each as often.",
    )


def _weights(pair: _Pair, both: Sequence[VersionDetails], path: str) -> Table[_Weight]:
    changed: Any = () if pair.diff is None else pair.diff.weights[:WEIGHTS_SHOWN]
    rows = [
        _Weight(
            one.what,
            one.left or None,
            one.right or None,
            None if pair.changes.get(one.what) is None else 100 * (pair.changes[one.what] or 0.0),
        )
        for one in changed
    ]
    return Table(
        f"weights-{pair.left.variant}",
        f"{pair.name}: weights that differ, the largest first",
        (
            Column("weight", "Weight", lambda one: one.name),
            Column("left", both[0].version.version, lambda one: one.left_bytes, "bytes"),
            Column("right", both[1].version.version, lambda one: one.right_bytes, "bytes"),
            Column("change", "Moved by, % of its norm", lambda one: one.change, "number"),
        ),
        rows,
        path,
        empty="No weight differs.",
    )
