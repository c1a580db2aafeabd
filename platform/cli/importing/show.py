"""Says what an import has made, in words or as JSON."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from alcove.platform.cli.importing.comparison import Accuracy
from alcove.platform.cli.importing.programs import Imported
from alcove.platform.cli.output import print_table, say
from alcove.runtime import load

if TYPE_CHECKING:
    from alcove.platform.cli.importing.onnx_program import ImportedOnnx

SHOWN: Final = 8
FAR: Final = 0.01
"""A larger difference from ONNX Runtime, as a share of an output's range, gets a warning."""
GOOD: Final = 0.95
"""A smaller share of equal answers gets a hint what to do."""


def onnx_facts_of(result: "ImportedOnnx", out: Path) -> dict[str, Any]:
    """Return what is known of the import of an ONNX file, for `--json`."""
    found = {"file": str(out), "size_bytes": len(bytes(result.program)), "digest": result.program.digest}
    facts = found if result.imported is None else facts_of(result.imported, out)
    inputs = [{"name": name, "shape": list(shape), "type": kind} for name, shape, kind in result.inputs]
    return {
        **facts,
        "inputs": inputs,
        "outputs": [{"name": port.name, "shape": list(port.shape)} for port in load(bytes(result.program)).outputs],
        "left_to_the_app": list(result.left),
        "outputs_of_the_file": list(result.replaced),
        "onnxruntime": asdict(result.parity),
        "tolerance": result.tolerance,
    }


def show_onnx(result: "ImportedOnnx", out: Path) -> None:
    """Say it: what was made, and how far it is from ONNX Runtime."""
    if result.imported is None:
        say(f"{out}: {len(bytes(result.program)):,} bytes, sha256 {result.program.digest}")
        ports = ", ".join(f"{name} {'x'.join(map(str, shape))} {kind}" for name, shape, kind in result.inputs)
        say(f"float32; takes {ports}")
        _show_tolerance(result.tolerance)
    else:
        show_import(result.imported, out)
    for each in result.left:
        say(f"left to the app: {each}")
    if result.replaced:
        given = ", ".join(
            f"{port.name} {'x'.join(map(str, port.shape))}" for port in load(bytes(result.program)).outputs
        )
        say(f"so the program gives {given} in place of {', '.join(result.replaced)}; --outputs NAME,NAME gives others")
    parity = result.parity
    if parity.largest is None or parity.share is None:
        say(f"not compared with ONNX Runtime: {parity.why}")
        return
    what = "the program" if result.imported is None else "the file as it was read, in float32,"
    say(
        f"{what} differs from ONNX Runtime by {parity.largest:.2g} at most, {parity.share:.1e} of the outputs' range, "
        f"on {parity.samples} {'random inputs' if result.imported is None else 'pictures'}"
    )
    if parity.is_rounding:
        say(
            "rounding decides that much: ONNX Runtime's own answers move by "
            f"{parity.own:.1e} when inputs and weights change in their last bits"
        )
    elif parity.share > FAR:
        say("that is more than rounding: tell us of this file, and do not use the program unless you know why")


def facts_of(imported: Imported, out: Path) -> dict[str, Any]:
    """Return what is known of an import, for `--json`."""
    compared = imported.comparison
    return {
        "file": str(out),
        "size_bytes": len(bytes(imported.program)),
        "digest": imported.program.digest,
        "tolerance": imported.tolerance,
        "weights": list(imported.notes),
        "calibrated_on": imported.calibrated_on,
        "kept_float": list(imported.kept_float),
        "compared_on": compared.pictures,
        "same_best": round(compared.same_best, 4),
        "mean_error": round(compared.mean_error, 4),
        "worst_error": round(compared.worst_error, 4),
        "accuracy": None if compared.accuracy is None else asdict(compared.accuracy),
    }


def show_import(imported: Imported, out: Path, samples: str = "pictures") -> None:
    """Say it: what was made, how its answers compare on `samples`, and what to do where they differ too much."""
    compared = imported.comparison
    say(f"{out}: {len(bytes(imported.program)):,} bytes, sha256 {imported.program.digest}")
    for note in imported.notes:
        say(note)
    if imported.calibrated_on:
        say(f"int8, calibrated on {imported.calibrated_on} {samples}")
    if imported.kept_float:
        more = f" and {len(imported.kept_float) - SHOWN} more" if len(imported.kept_float) > SHOWN else ""
        say(f"float32 as before, to lose no more: {', '.join(imported.kept_float[:SHOWN])}{more}")
    say(
        f"same {imported.word} as torch in float32: {compared.same_best:.1%} of {compared.pictures} {samples}; outputs "
        f"differ by {compared.mean_error:.1%} of their range (mean), {compared.worst_error:.1%} at most"
    )
    if compared.accuracy is not None:
        say(f"right, by the labels: {compared.accuracy.program:.1%}; torch in float32 {compared.accuracy.torch:.1%}")
        _show_changes(compared.accuracy, samples)
    _show_tolerance(imported.tolerance)
    if imported.calibrated_on and compared.same_best < GOOD:
        say(
            f"int8 changes more answers than it should: give more {samples} (--samples), or a smaller --max-drop, "
            "which keeps more layers float32, or --float32"
        )


def _show_changes(accuracy: Accuracy, samples: str) -> None:
    """Say in one table which classes have other answers now: how many are right, and what is said in place of what."""
    rows = []
    for each in accuracy.classes:
        changes = [change for change in accuracy.changes if change.folder == each.folder]
        if changes:
            more = f", {len(changes) - SHOWN} more" if len(changes) > SHOWN else ""
            words = ", ".join(f"{change.torch} -> {change.program}: {change.pictures}" for change in changes[:SHOWN])
            rows.append((sum(change.pictures for change in changes), each, words + more))
    rows.sort(key=lambda row: -row[0])
    if rows:
        print_table(
            ("class", samples, "right_in_torch", "right_in_the_program", "changed"),
            [
                (each.folder, str(each.pictures), str(each.torch), str(each.program), words)
                for _, each, words in rows[:SHOWN]
            ],
        )
    if len(rows) > SHOWN:
        say(f"{len(rows) - SHOWN} more classes have other answers (--json lists all)")


def _show_tolerance(tolerance: str) -> None:
    if tolerance == "loose":
        say(
            "rounding alone moves the answers: one bit of each weight by as much as the program differs from torch; "
            "the certificate promises 1 % (loose) in place of 0.01 %"
        )
