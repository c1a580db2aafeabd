"""Exports the module that a user's factory makes to a certified program."""

import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

import typer

if TYPE_CHECKING:
    from alcove.runtime.program import Program

__all__ = [
    "ExportOptions",
    "call_function",
    "export_factory",
    "made_by",
    "take_rounded_weights",
    "validate_arguments",
    "validate_out_path",
]

QUANTIZATIONS: Final = (
    "int8", "int8_dynamic", "int8_weights", "int4_dynamic", "int4_weights", "float16_weights", "bfloat16_weights",
)  # fmt: skip
"""Those of the compiler, which takes seconds to load; a test compares them."""
LARGE_BYTES: Final = 2048
"""A certificate has 64 KiB for 16 samples."""


@dataclass(frozen=True)
class ExportOptions:
    """Options of an export and its certificate.

    Attributes:
        quantize: as `export` takes it.
        calibration: MODULE:FUNCTION that returns real inputs, or None.
        max_drop: budget of the quantized program, or None.
        licence: of the certificate's samples.
        tolerance: of the certificate; "" chooses "quantised" for int8 activations, else "standard".
        growth_bytes: as `export` takes it; None for what it does by itself.
        cast: as `export` takes it; the certificate compares with the module that was cast.
    """

    quantize: str | None
    calibration: str | None
    max_drop: float | None
    licence: str
    tolerance: str
    growth_bytes: int | None = None
    cast: str | None = None


def export_factory(
    name: str, options: ExportOptions, progress: Callable[[str], None] = lambda _step: None
) -> "Program":
    """Return the program of the module that `MODULE:FACTORY` makes, with its parity certificate.

    `progress` is called with the name of each step before it begins.

    Samples of the certificate are what the factory gives as its third value (tuples of inputs), else its example
    arguments; of a large tensor only type, shape and range are kept, and a rule makes elements for them.

    Raises:
        typer.BadParameter: no such module or function, no torch, the factory raises or returns something else, or
            options that there are not or that contradict each other.
        ExportError: the module holds what no program can.
        CertificateError: native and torch differ, or a sample is refused.
    """
    validate_arguments(name, options)
    try:
        from alcove.runtime.certificate import Sample, embed_certificate  # noqa: PLC0415 - torch is optional
        from alcove.runtime.compiler import export, load_state  # noqa: PLC0415
        from alcove.runtime.compiler.cast import cast_module, cast_samples  # noqa: PLC0415
        from alcove.runtime.compiler.certify import certify  # noqa: PLC0415
    except ImportError as error:
        problem = f"needs torch: pip install 'alcove-platform[export]' ({error})"
        raise typer.BadParameter(problem) from None
    module, args, samples = made_by(name)
    eager = module
    calibration = None if options.calibration is None else _samples_of(options.calibration)
    if options.cast is not None:
        eager, samples = cast_module(module), cast_samples(samples)
    program = export(
        module,
        args,
        quantize=options.quantize,
        calibration=calibration,
        max_drop=options.max_drop,
        growth_bytes=options.growth_bytes,
        cast=options.cast,
        progress=progress,
    )
    progress("certify")
    if options.quantize is not None:
        take_rounded_weights(eager, load_state(program.spec))
    is_rounded = options.quantize not in (None, "int8") or calibration is not None
    source = f"example inputs of {name.rpartition('/')[2]}"
    certificate = certify(
        bytes(program),
        eager,
        [Sample(inputs=_sample_inputs(sample), source=source) for sample in samples],
        licence=options.licence,
        tolerance=options.tolerance or ("quantised" if is_rounded else "standard"),
    )
    return program.with_bytes(embed_certificate(bytes(program), certificate))


def validate_arguments(name: str, options: ExportOptions) -> None:
    """Find out what is wrong with the arguments before torch is loaded, which takes seconds.

    Raises:
        typer.BadParameter: a value that there is not, or a file or module that is not there.
    """
    for place in (name, options.calibration):
        if place is not None:
            _find_place(place)
    from alcove.runtime.certificate import LICENCES, TOLERANCES  # noqa: PLC0415 - loads numpy

    choices: tuple[tuple[str, str | None, tuple[str | None, ...]], ...] = (
        ("--tolerance", options.tolerance, ("", *TOLERANCES)),
        ("--licence", options.licence, tuple(LICENCES)),
        ("--cast", options.cast, (None, "float32")),
        ("--quantize", options.quantize, (None, *QUANTIZATIONS)),
    )
    for option, value, known in choices:
        if value not in known:
            raise typer.BadParameter(f"one of {', '.join(filter(None, known))}; got {value!r}", param_hint=option)
    if options.calibration is not None and options.quantize != "int8":
        problem = "real inputs are for --quantize int8; no other mode uses any"
        raise typer.BadParameter(problem, param_hint="--calibration")
    if options.max_drop is not None and options.calibration is None:
        problem = "it needs real inputs to measure the noise with: add --calibration MODULE:FUNCTION"
        raise typer.BadParameter(problem, param_hint="--max-drop")
    if options.max_drop is not None and not options.max_drop >= 0:
        raise typer.BadParameter(f"at least 0; got {options.max_drop}", param_hint="--max-drop")


def _find_place(name: str) -> tuple[str, str]:
    """Return module or file, and function, of MODULE:FUNCTION; nothing of it is run.

    Raises:
        typer.BadParameter: it reads otherwise, or there is no such file or module.
    """
    place, colon, function = name.rpartition(":")
    if not (place and colon and function):
        raise typer.BadParameter(f"write MODULE:FACTORY, such as my_model.py:make; got {name!r}")
    top = place.partition(".")[0]
    if place.endswith(".py"):
        if not Path(place).is_file():
            raise typer.BadParameter(f"{place}: no file {place}")
    elif top not in sys.modules and importlib.util.find_spec(top) is None:
        raise typer.BadParameter(f"{place}: No module named {top!r}")
    return place, function


def validate_out_path(out: Path) -> None:
    """Find out that a program can go to `out` before it is made.

    Raises:
        typer.BadParameter: it is a folder, or its folder is not there.
    """
    if out.is_dir() or not out.parent.is_dir():
        problem = "it is a folder; name a file in it" if out.is_dir() else f"there is no folder {out.parent}"
        raise typer.BadParameter(f"--out {out}: {problem}")


def made_by(name: str) -> tuple[Any, tuple[Any, ...], Sequence[tuple[Any, ...]]]:
    """Return module, example arguments and samples of the factory `MODULE:FACTORY`.

    Raises:
        typer.BadParameter: no such module or function, or it returns something else.
    """
    made = call_function(name)
    if not isinstance(made, tuple) or len(made) not in (2, 3):
        kind = f"{len(made)} values" if isinstance(made, tuple) else type(made).__name__
        raise typer.BadParameter(f"{name} must return (module, args) or (module, args, samples), not {kind}")
    module, args = made[0], made[1]
    if not hasattr(module, "forward") or not callable(getattr(module, "eval", None)) or isinstance(module, type):
        raise typer.BadParameter(f"{name} must return a torch module first, not {type(module).__name__}")
    if not isinstance(args, tuple):
        raise typer.BadParameter(f"{name} must return its args as a tuple, not as {type(args).__name__}")
    samples = made[2] if len(made) == 3 else [args]
    if not isinstance(samples, Sequence) or isinstance(samples, str) or not samples:
        raise typer.BadParameter(f"{name} must return its samples as a list of tuples like args, not {samples!r:.60}")
    return module.eval(), args, samples


def call_function(name: str, **options: Any) -> Any:
    """Return what the user's function or class `MODULE:FUNCTION` returns, given `options` by name.

    Raises:
        typer.BadParameter: there is none, or it raises; names the error and the user's line.
    """
    function = _factory(name)
    with _report_export_errors(name):
        return function(**options)


@contextlib.contextmanager
def _report_export_errors(name: str) -> Iterator[None]:
    """Turn what the user's own code raises into one sentence with its line."""
    try:
        yield
    except typer.BadParameter:
        raise
    except (Exception, SystemExit) as error:
        frames = [frame for frame in extract_tb(error.__traceback__) if frame.filename != __file__]
        frames = [frame for frame in frames if not frame.filename.startswith("<frozen")] or frames
        where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
        if isinstance(error, SyntaxError):
            where = f" at {error.filename}:{error.lineno}"
        words = str(error.msg if isinstance(error, SyntaxError) else error).strip().partition("\n")[0]
        raise typer.BadParameter(f"{name} raises {type(error).__name__}: {words}{where}") from error


def _samples_of(name: str) -> list[Any]:
    """Return the calibration samples of `MODULE:FUNCTION`.

    Raises:
        typer.BadParameter: no such function, it raises, or it returns no samples.
    """
    given = call_function(name)
    if isinstance(given, str) or not hasattr(given, "__iter__"):
        raise typer.BadParameter(f"{name} must return real inputs, one after the other, not {type(given).__name__}")
    with _report_export_errors(name):
        return list(given)


def _factory(name: str) -> Callable[..., Any]:
    place, function = _find_place(name)
    try:
        with _report_export_errors(place):
            module = _module_of_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    except typer.BadParameter as error:
        if isinstance(error.__cause__, ModuleNotFoundError | FileNotFoundError):
            raise typer.BadParameter(f"{place}: {error.__cause__}") from None
        raise
    made = getattr(module, function, None)
    if made is None:
        raise typer.BadParameter(f"{place} has no function {function!r}")
    if not callable(made):
        raise typer.BadParameter(f"{name} is no function but {type(made).__name__}")
    return cast("Callable[..., Any]", made)


def _module_of_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"no file {path}")
    module = importlib.util.module_from_spec(spec)
    if path.stem not in sys.modules and path.stem not in sys.stdlib_module_names:  # an io.py must not become Python's
        sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def take_rounded_weights(module: Any, state: dict[str, Any]) -> None:
    """Give the module the weights that the program holds: the certificate promises arithmetic, not rounding."""
    import torch  # noqa: PLC0415 - in alcove-platform[export] only

    module.load_state_dict({name: torch.from_numpy(array) for name, array in state.items()}, strict=False)


def _sample_inputs(sample: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a sample's texts and tensors, nested ones too, as a certificate takes them."""
    import torch.utils._pytree as pytree  # noqa: PLC0415 - in alcove-platform[export] only

    leaves = [leaf for leaf in pytree.tree_leaves(sample) if leaf is not None and not isinstance(leaf, int | float)]
    return tuple(leaf if isinstance(leaf, str) else _sample_array(seed, leaf) for seed, leaf in enumerate(leaves))


def _sample_array(seed: int, tensor: Any) -> Any:
    """Return a small tensor as it is, and of a large one a rule for one of its type, shape and range."""
    from alcove.runtime.certificate import SAMPLE_DTYPES, Procedural  # noqa: PLC0415 - loads pydantic

    array = tensor.detach().cpu().numpy()
    if array.nbytes <= LARGE_BYTES:
        return array
    low, high = float(array.min()), float(array.max())
    span = high - low if array.dtype.kind == "f" and high > low else high - low + 1
    name = next(name for name, dtype in SAMPLE_DTYPES.items() if dtype == array.dtype)
    return Procedural("smooth" if array.dtype.kind in "fu" else "uniform", name, array.shape, seed, low, low + span)
