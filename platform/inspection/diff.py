"""Compares two versions or two programs: sizes, memory, operators, weights, times, signatures, lineage and cards.

Pure except `figures_of` and `relative_changes`, which ask the runtime.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field

from alcove.registry.compatibility import differences
from alcove.registry.manifest import ModelSignature

__all__ = [
    "Figure",
    "ProgramFigures",
    "Side",
    "VariantDiff",
    "VersionDiff",
    "compare",
    "figures_of",
    "relative_changes",
]


@dataclass(frozen=True)
class ProgramFigures:
    """Figures of a program that are compared.

    Attributes:
        size_bytes: of the file.
        memory_ceiling_bytes: that one run needs besides it.
        ops: how often each operator occurs.
        tolerance: class that its certificate promises; "" without a certificate.
        samples: of its certificate.
        latency_ms: of one run, where it was measured.
        weights: (SHA-256, bytes) of the content of each, by name.
        times_us: what operators of each type took together in one run, where it was profiled.
    """

    size_bytes: int
    memory_ceiling_bytes: int
    ops: Mapping[str, int]
    tolerance: str
    samples: int
    latency_ms: float | None = None
    weights: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    times_us: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Side:
    """One of the two that are compared: a version of the registry, or a file.

    Attributes:
        name: for people.
        card: model card; None for a file.
        signature: inputs and outputs.
        programs: by variant.
        lineage: what the manifest says of its origin, by field.
    """

    name: str
    card: str | None
    signature: ModelSignature
    programs: Mapping[str, ProgramFigures]
    lineage: Mapping[str, str]


@dataclass(frozen=True)
class Figure:
    """One line of a comparison; `change` is right minus left, None where there is nothing to subtract."""

    what: str
    left: float | str | None
    right: float | str | None
    change: float | None


@dataclass(frozen=True)
class VariantDiff:
    """Differences of two programs.

    Attributes:
        variant: its name, or both names.
        figures: of the whole program, those that don't differ too.
        ops: operators that occur more or less often than before.
        weights: bytes of those whose content differs, or that one has alone, the largest first.
        times: microseconds that operators of each type take in a run, where both were profiled.
    """

    variant: str
    figures: tuple[Figure, ...]
    ops: tuple[Figure, ...]
    weights: tuple[Figure, ...] = ()
    times: tuple[Figure, ...] = ()


@dataclass(frozen=True)
class VersionDiff:
    """Differences of two sides.

    Attributes:
        variants: of programs that both have.
        only_left, only_right: variants that one side has alone.
        breaks: what apps that call the left side would trip over on the right.
        lineage: fields that differ.
        card: unified diff of the cards; "" where they are equal, or one has none.
    """

    left: str
    right: str
    variants: tuple[VariantDiff, ...]
    only_left: tuple[str, ...]
    only_right: tuple[str, ...]
    breaks: tuple[str, ...]
    lineage: tuple[Figure, ...]
    card: str


def compare(left: Side, right: Side) -> VersionDiff:
    """Return what differs.

    Variants are compared by name; where each side has one program alone, these two are compared whatever their names.
    """
    pairs = [(name, name) for name in left.programs if name in right.programs]
    if len(left.programs) == len(right.programs) == 1:
        pairs = [(next(iter(left.programs)), next(iter(right.programs)))]
    compared_left, compared_right = {pair[0] for pair in pairs}, {pair[1] for pair in pairs}
    return VersionDiff(
        left=left.name,
        right=right.name,
        variants=tuple(
            _variant(old if old == new else f"{old} → {new}", left.programs[old], right.programs[new])
            for old, new in pairs
        ),
        only_left=tuple(sorted(left.programs.keys() - compared_left)),
        only_right=tuple(sorted(right.programs.keys() - compared_right)),
        breaks=tuple(differences(left.signature, right.signature)),
        lineage=tuple(
            Figure(field, left.lineage.get(field) or None, right.lineage.get(field) or None, None)
            for field in sorted(left.lineage.keys() | right.lineage.keys())
            if left.lineage.get(field) != right.lineage.get(field)
        ),
        card=_card(left, right),
    )


def figures_of(
    program: bytes, *, is_timed: bool = False, is_profiled: bool = False
) -> tuple[ProgramFigures, ModelSignature]:
    """Return what is compared of a program, and its signature.

    Args:
        program: its bytes.
        is_timed: run it on this machine.
        is_profiled: the same, and see which operators take the time.

    Raises:
        ProgramRefusedError: the runtime does not load it, or it holds no certificate.
    """
    from alcove.registry.program_validation import RuntimeValidator  # noqa: PLC0415 - loads the runtime
    from alcove.registry.program_verification import RuntimeVerifier  # noqa: PLC0415

    validator = RuntimeValidator()
    facts = RuntimeVerifier().inspect("", program)
    summary = validator.summary("", program)
    figures = ProgramFigures(
        size_bytes=len(program),
        memory_ceiling_bytes=facts.memory_ceiling_bytes,
        ops=summary.ops,
        tolerance=summary.tolerance,
        samples=summary.samples,
        latency_ms=validator.latency_ms("", program) if is_timed or is_profiled else None,
        weights=summary.weights,
        times_us=_times_us(program) if is_profiled else {},
    )
    return figures, facts.signature


def relative_changes(left: bytes, right: bytes) -> dict[str, float | None]:
    """Return how far each weight moved that both programs hold with another content: ‖right - left‖ / ‖left‖.

    The stored numbers are compared, padding and fused biases included, as Euclidean norms.  None where that says
    nothing: another type, shape or layout, no float32, or a left side of zeros.

    Raises:
        ProgramError: the bytes are no valid programs.
    """
    import numpy as np  # noqa: PLC0415 - with the runtime
    from alcove.runtime.format.reader import read_spec  # noqa: PLC0415 - loads the runtime
    from alcove.runtime.format.spec import DType, Storage  # noqa: PLC0415

    sides = [
        {
            tensor.name: tensor
            for method in read_spec(program).methods
            for tensor in method.tensors
            if tensor.storage is Storage.CONSTANT
        }
        for program in (left, right)
    ]
    found: dict[str, float | None] = {}
    for name in sides[0].keys() & sides[1].keys():
        old, new = sides[0][name], sides[1][name]
        if bytes(old.data) == bytes(new.data):
            continue
        kinds = [(each.dtype, each.shape, each.layout, len(each.data)) for each in (old, new)]
        found[name] = None
        if kinds[0] == kinds[1] and old.dtype is DType.F32:
            was = np.frombuffer(old.data, dtype="<f4").astype(np.float64)
            moved = float(np.linalg.norm(np.frombuffer(new.data, dtype="<f4") - was))
            norm = float(np.linalg.norm(was))
            if norm and np.isfinite(moved / norm):
                found[name] = moved / norm
    return found


def _variant(name: str, left: ProgramFigures, right: ProgramFigures) -> VariantDiff:
    figures = [
        _number("size_bytes", left.size_bytes, right.size_bytes),
        _number("memory_ceiling_bytes", left.memory_ceiling_bytes, right.memory_ceiling_bytes),
        _number("operators", sum(left.ops.values()), sum(right.ops.values())),
        Figure("parity_tolerance", left.tolerance, right.tolerance, None),
        _number("parity_samples", left.samples, right.samples),
    ]
    if left.weights or right.weights:
        figures += _weight_figures(left, right)
    if left.latency_ms is not None or right.latency_ms is not None:
        figures.append(_number("latency_ms", left.latency_ms, right.latency_ms))
    ops = [
        _number(op, left.ops.get(op, 0), right.ops.get(op, 0))
        for op in sorted(left.ops.keys() | right.ops.keys())
        if left.ops.get(op, 0) != right.ops.get(op, 0)
    ]
    times = [
        _number(op, left.times_us.get(op), right.times_us.get(op))
        for op in sorted(left.times_us.keys() | right.times_us.keys())
        if left.times_us and right.times_us
    ]
    return VariantDiff(name, tuple(figures), tuple(ops), _changed_weights(left, right), tuple(times))


def _weight_figures(left: ProgramFigures, right: ProgramFigures) -> list[Figure]:
    """Return bytes of weights, and of those whose content the other side has under no name."""
    sizes = [sum(size for _, size in side.weights.values()) for side in (left, right)]
    contents = [{digest for digest, _ in side.weights.values()} for side in (left, right)]
    alone = [
        sum(size for digest, size in side.weights.values() if digest not in others)
        for side, others in ((left, contents[1]), (right, contents[0]))
    ]
    share = alone[1] / sizes[1] if sizes[1] else 0.0
    return [
        _number("weight_bytes", *sizes),
        Figure("weight_bytes_of_its_own", alone[0], alone[1], None),
        Figure("share_of_weights_that_is_new", None, round(share, 4), None),
    ]


def _changed_weights(left: ProgramFigures, right: ProgramFigures) -> tuple[Figure, ...]:
    names = [
        name for name in left.weights.keys() | right.weights.keys() if left.weights.get(name) != right.weights.get(name)
    ]
    sizes = {name: [side.weights.get(name, ("", 0))[1] for side in (left, right)] for name in names}
    return tuple(_number(name, *sizes[name]) for name in sorted(names, key=lambda name: (-max(sizes[name]), name)))


def _times_us(program: bytes) -> dict[str, float]:
    """Return what operators of each type take in a run of the certificate's first sample."""
    from alcove.runtime.certificate.document import decode_input, parse  # noqa: PLC0415
    from alcove.runtime.model import load  # noqa: PLC0415
    from alcove.runtime.profile import profile_program  # noqa: PLC0415

    sample = parse(load(program).certificate).samples[0]
    inputs = [decode_input(index, value) for index, value in enumerate(sample.inputs)]
    times: dict[str, float] = {}
    for op in profile_program(program, inputs, method=sample.method).ops:
        times[op.op] = times.get(op.op, 0.0) + op.time_us
    return times


def _number(what: str, left: float | None, right: float | None) -> Figure:
    return Figure(what, left, right, None if left is None or right is None else right - left)


def _card(left: Side, right: Side) -> str:
    if left.card is None or right.card is None:
        return ""
    lines = difflib.unified_diff(
        left.card.splitlines(), right.card.splitlines(), f"{left.name} CARD.md", f"{right.name} CARD.md", lineterm=""
    )
    return "\n".join(lines)
