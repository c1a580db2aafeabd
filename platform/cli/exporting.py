"""How does a factory that the user names become a certified program?"""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast

import typer
from alcove.runtime.program import Program

__all__ = ["ExportOptions", "export_factory", "made_by"]

LARGE_BYTES: Final = 2048
"""A certificate has 64 KiB for 16 samples."""


@dataclass(frozen=True)
class ExportOptions:
    """How a module is exported and certified.

    Attributes:
        quantize: as `export` takes it.
        calibration: MODULE:FUNCTION that returns real inputs, or None.
        max_drop: budget of the quantised program, or None.
        licence: of the certificate's samples.
        tolerance: of the certificate; "" chooses "quantised" for int8 activations, else "standard".
    """

    quantize: str | None
    calibration: str | None
    max_drop: float | None
    licence: str
    tolerance: str


def export_factory(name: str, options: ExportOptions) -> Program:
    """Return the program of the module that `MODULE:FACTORY` makes, with its parity certificate.

    Samples of the certificate are what the factory gives as its third value (tuples of inputs), else its example
    arguments; of a large tensor only type, shape and range are kept, and a rule makes elements for them.

    Raises:
        typer.BadParameter: no such module or function, no torch, or the factory returns something else.
        ExportError: the module holds what no program can.
        ValueError: options that contradict each other.
        CertificateError: native and torch differ, or a sample is refused.
    """
    try:
        from alcove.runtime.certificate import Sample, embed_certificate  # noqa: PLC0415 - torch is optional
        from alcove.runtime.compiler import export, load_state  # noqa: PLC0415
        from alcove.runtime.compiler.certify import certify  # noqa: PLC0415
    except ImportError as error:
        problem = f"needs alcove[export]: pip install 'alcove[export]' ({error})"
        raise typer.BadParameter(problem) from None
    module, args, samples = made_by(name)
    calibration = None if options.calibration is None else list(_factory(options.calibration)())
    program = export(module, args, quantize=options.quantize, calibration=calibration, max_drop=options.max_drop)
    if options.quantize is not None:
        _take_rounded_weights(module, load_state(program.spec))
    is_rounded = options.quantize not in (None, "int8") or calibration is not None
    source = f"example inputs of {name.rpartition('/')[2]}"
    certificate = certify(
        bytes(program),
        module,
        [Sample(inputs=_sample_inputs(sample), source=source) for sample in samples],
        licence=options.licence,
        tolerance=options.tolerance or ("quantised" if is_rounded else "standard"),
    )
    return program.with_bytes(embed_certificate(bytes(program), certificate))


def made_by(name: str) -> tuple[Any, tuple[Any, ...], Sequence[tuple[Any, ...]]]:
    """Return module, example arguments and samples of the factory `MODULE:FACTORY`.

    Raises:
        typer.BadParameter: no such module or function, or it returns something else.
    """
    made = _factory(name)()
    if not isinstance(made, tuple) or len(made) not in (2, 3) or not isinstance(made[1], tuple):
        raise typer.BadParameter(f"{name} must return (module, args) or (module, args, samples), args being a tuple")
    module, args = made[0].eval(), made[1]
    return module, args, made[2] if len(made) == 3 else [args]


def _factory(name: str) -> Callable[[], Any]:
    place, colon, function = name.rpartition(":")
    if not (place and colon and function):
        raise typer.BadParameter(f"write MODULE:FACTORY, such as my_model.py:make; got {name!r}")
    try:
        module = _module_of_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
        return cast("Callable[[], Any]", getattr(module, function))
    except (ModuleNotFoundError, FileNotFoundError) as error:
        raise typer.BadParameter(f"{place}: {error}") from None
    except AttributeError:
        raise typer.BadParameter(f"{place} has no function {function!r}") from None


def _module_of_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _take_rounded_weights(module: Any, state: dict[str, Any]) -> None:
    """Give the module the weights that the program holds: the certificate promises arithmetic, not rounding."""
    import torch  # noqa: PLC0415 - in alcove[export] only

    module.load_state_dict({name: torch.from_numpy(array) for name, array in state.items()}, strict=False)


def _sample_inputs(sample: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a sample's texts and tensors, nested ones too, as a certificate takes them."""
    import torch.utils._pytree as pytree  # noqa: PLC0415 - in alcove[export] only

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
