"""Validates a version before its release: checks its figures against the bounds that its feature sets.

    certificate   every sample of each program, run on this server, gives what the certificate promises
    size          bytes of each program                        ≤ the feature's rule
    memory        bytes that one run needs besides it          ≤ the feature's rule
    latency       median of the certificate's samples, in ms   ≤ the feature's rule
    weights       elements of weights that are NaN             = 0
    operators     those of each program                        ⊆ the feature's rule
    signature     what an app passes and gets                  as in the version before (`registry.compatibility`)

Every check is made and reported, whatever fails; a figure without a rule is reported and passes.
"""

from collections.abc import Iterable, Mapping

from alcove.platform.domain.catalog.program_report import ProgramReport
from alcove.platform.domain.catalog_records import CheckResult, FeatureRules
from alcove.registry.compatibility import differences
from alcove.registry.manifest import Manifest, Variant
from alcove.registry.program_validation import Parity, ProgramSummary

__all__ = ["measured_latencies_ms", "validate"]

_SHOWN = 5  # names in a figure; a broken program may have thousands


def validate(
    manifest: Manifest, reports: Mapping[str, ProgramReport], rules: FeatureRules, previous: Manifest | None
) -> tuple[CheckResult, ...]:
    """Return every check of a version.

    Args:
        manifest: of the version.
        reports: what each variant's program gave, by the variant's name.
        rules: of its feature.
        previous: manifest of the version that apps call now; None: there is none.
    """
    checks: list[CheckResult] = []
    for variant in manifest.variants:
        found = reports[variant.name]
        checks += [
            _certificate(variant.name, found.parity),
            _bound_result("size", variant, variant.size_bytes, rules.max_size_bytes),
            _bound_result("memory", variant, variant.memory_ceiling_bytes, rules.max_memory_bytes),
            _latency(variant.name, found.latency_ms, rules.max_latency_ms),
            *_validate_summary(variant.name, found.summary, rules.allowed_ops),
        ]
    return (*checks, _signature(manifest, previous))


def _certificate(variant: str, parity: Parity | str) -> CheckResult:
    bound = "every sample within its tolerance, and its digests"
    if isinstance(parity, str):
        return CheckResult("certificate", variant, is_passed=False, figure=parity, bound=bound)
    figure = (
        f"{parity.samples} samples, tolerance {parity.tolerance!r}, largest difference {parity.largest_difference:.3g}"
    )
    return CheckResult("certificate", variant, is_passed=True, figure=figure, bound=bound)


def _bound_result(name: str, variant: Variant, figure_bytes: int, most_bytes: int) -> CheckResult:
    return CheckResult(
        name,
        variant.name,
        is_passed=not most_bytes or figure_bytes <= most_bytes,
        figure=f"{figure_bytes} bytes",
        bound=f"at most {most_bytes} bytes" if most_bytes else "",
    )


def _latency(variant: str, latency_ms: float | str, most_ms: float) -> CheckResult:
    bound = f"at most {most_ms:g} ms" if most_ms else ""
    if isinstance(latency_ms, str):
        return CheckResult("latency", variant, is_passed=False, figure=latency_ms, bound=bound)
    is_passed = not most_ms or latency_ms <= most_ms
    return CheckResult("latency", variant, is_passed=is_passed, figure=f"{latency_ms:.3g} ms", bound=bound)


def measured_latencies_ms(checks: Iterable[CheckResult]) -> dict[str, float]:
    """Return what a run took, by variant, where a validation measured it."""
    return {
        check.variant: float(check.figure.removesuffix(" ms"))
        for check in checks
        if check.name == "latency" and check.figure.endswith(" ms")
    }


def _validate_summary(
    variant: str, summary: ProgramSummary | str, allowed: tuple[str, ...]
) -> tuple[CheckResult, CheckResult]:
    allowed_text = f"only {', '.join(allowed)}" if allowed else ""
    if isinstance(summary, str):
        return (
            CheckResult("weights", variant, is_passed=False, figure=summary, bound="0 NaN"),
            CheckResult("operators", variant, is_passed=False, figure=summary, bound=allowed_text),
        )
    nans = summary.nan_weights
    figure = f"{sum(nans.values())} NaN" + (f" in {_some(sorted(nans))}" if nans else "")
    foreign = sorted(summary.ops.keys() - set(allowed)) if allowed else []
    ops = f"{_some(foreign)} not allowed" if foreign else f"{len(summary.ops)} operators"
    return (
        CheckResult("weights", variant, is_passed=not nans, figure=figure, bound="0 NaN"),
        CheckResult("operators", variant, is_passed=not foreign, figure=ops, bound=allowed_text),
    )


def _signature(manifest: Manifest, previous: Manifest | None) -> CheckResult:
    if previous is None:
        return CheckResult("signature", "", is_passed=True, figure="no version before it", bound="")
    found = differences(previous.signature, manifest.signature)
    return CheckResult(
        "signature",
        "",
        is_passed=not found,
        figure="; ".join(found) or "no app that calls it breaks",
        bound=f"what an app passes to and gets from {previous.version}",
    )


def _some(names: list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
