"""Exports a torch module as a program: runs the passes in order.

capture → lower → eliminate_dead_code → legalize → layout → fuse → quantize → fuse_gated_activations → split_concats →
winograd → fuse_depthwise_separable → fuse_squeeze_excite → keep_channels_first → choose_activations →
write_state_rows → pack → plan → emit → check → bytes → the verifier of the devices
"""

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from alcove.runtime.compiler.capture import Captured, capture
from alcove.runtime.compiler.cast import cast_all, half_type
from alcove.runtime.compiler.checks import check_module
from alcove.runtime.compiler.choose_activations import choose_activations
from alcove.runtime.compiler.codegen import emit_program
from alcove.runtime.compiler.dead_code_elimination import eliminate_dead_code
from alcove.runtime.compiler.every_size import program_at_every_size
from alcove.runtime.compiler.export_cache import ExportCache, default_folder, key_of
from alcove.runtime.compiler.fuse import fuse
from alcove.runtime.compiler.fuse_depthwise_separable import choose_separable, fuse_depthwise_separable
from alcove.runtime.compiler.fuse_gated_activation import fuse_gated_activations
from alcove.runtime.compiler.fuse_squeeze_excite import fuse_squeeze_excite
from alcove.runtime.compiler.graph import Graph, render
from alcove.runtime.compiler.held_tensors import hold_tensors
from alcove.runtime.compiler.keep_channels_first import choose_channels_first, keep_channels_first
from alcove.runtime.compiler.layout import Choices, layout
from alcove.runtime.compiler.legalize import legalize
from alcove.runtime.compiler.lower import lower
from alcove.runtime.compiler.methods import Compiled, Method, check_methods, entry_of, join_methods, list_kept
from alcove.runtime.compiler.narrow import narrow
from alcove.runtime.compiler.pack import pack
from alcove.runtime.compiler.quantize import Budget, Metric, Quantization, Quantizer, half_of, options_of
from alcove.runtime.compiler.quantized_modules import with_plain_layers
from alcove.runtime.compiler.scripts import module_of
from alcove.runtime.compiler.sizes import without_terms
from alcove.runtime.compiler.split_concat import choose_split, split_concats
from alcove.runtime.compiler.state_rows import write_state_rows
from alcove.runtime.compiler.winograd import GROWTH_BYTES, choose_winograd, winograd
from alcove.runtime.errors import ArgumentError, ExportError
from alcove.runtime.format.spec import ONLY_METHOD, DType
from alcove.runtime.program import Program
from torch import nn

Record = Callable[[str, Graph], Graph]
Progress = Callable[[str], None]
"""Takes the name of a step before it begins."""


@dataclass(frozen=True)
class _Options:
    """What a caller of `export` wishes for all methods."""

    quantize: str | Quantization | None
    max_drop: float | None
    metric: Metric | None
    growth_bytes: int | None
    cast: str | None
    progress: Progress


def export(
    module: nn.Module | Mapping[str, Method],
    args: Sequence[object] | None = None,
    *,
    dynamic_shapes: object = None,
    quantize: str | Quantization | None = None,
    calibration: object = None,
    max_drop: float | None = None,
    metric: Metric | None = None,
    growth_bytes: int | None = None,
    cast: str | None = None,
    progress: Progress | None = None,
    cache: bool | str | os.PathLike[str] = False,
) -> Program:
    """Compile a torch module to a program.

    Args:
        module: in eval mode, parameters in float32; it is not changed.  One of TorchScript is taken too.  Or several
            entry points by name, `{"prefill": Method(model, (tokens,)), "decode": Method(model, (token,))}`: they share
            weights and what a session keeps, and a call of the program runs the first.
        args: one example for each argument of `forward`; None where `module` is several methods, which have theirs.  A
            `str` stands for a text: `forward` gets its UTF-8 bytes as a uint8 tensor of any length, the program takes a
            `str`.  Tensors may lie in tuples, lists and dictionaries;
            the program takes them one after the other.
        dynamic_shapes: as `torch.export.export` takes it, for ids of varying number: {"ids": {0: Dim("n", max=512)}}.
        quantize: None for f32; "int8" for int8 embedding tables with one scale a column and, with `calibration`, int8
            weights and activations; "int8_dynamic", "int8_weights", "int4_dynamic" or "int4_weights" for linears;
            "float16_weights" or "bfloat16_weights" for all products and tables; or a `Quantization`.
        calibration: real inputs for "int8": a sequence of samples, each as `args` (or the only argument by itself), of
            the shapes of `args`; an axis that varies has its largest size.
        max_drop: how much worse than float32 the program may be on `metric`; layers stay float32, the worst first, till
            it is not. Needs `calibration`.
        metric: takes a program as a function of its inputs that gives a list of arrays, returns a number, more is
            better; None for the noise of the outputs on the samples, as a share of their energy.
        growth_bytes: by how much weights may grow to be faster: those of 3x3 convolutions that take Winograd's form are
            four times as large. 0 for the smallest program; None for 8 MiB, and for 0 with weights of 16 bits, since
            that form has none.
        cast: "float32" for a module in half, bfloat16 or double: the program is that of `module.float()`, takes and
            gives float32, and differs from the module by the rounding of its type; weights of 16 bits keep them in the
            file. None refuses such modules.
        progress: is called with the name of each step before it begins ("trace", "lower", "calibrate", "choose forms",
            "find sizes" or "pack", "write"), after that of its method where there are several.
        cache: True, or a folder: a program that was exported there before of the same traced graph, weights and
            options, by the same code, is returned after "trace", without the graphs of the passes.  Exports with
            `quantize` are made anew.  True stands for `alcove/exports` in the user's cache folder.

    Returns:
        The program; the same module gives the same bytes.

    Raises:
        ExportError: the module cannot become a program; every reason at once, each with its source line and the nearest
            supported form.
        ArgumentError: `module`, `args` or `dynamic_shapes` is not as above.
        ValueError: `quantize`, `calibration`, `max_drop`, `metric`, `growth_bytes` or `cast` is not as above, or they
            contradict each other.
        CalibrationError: the samples do not fit the inputs, or make numbers that are not finite.
        QuantizationError: the program would be the float32 one: nothing of the module takes the form asked for.
    """
    if growth_bytes is not None and growth_bytes < 0:
        raise ValueError(f"growth_bytes must be 0 or more, not {growth_bytes}")
    wishes = _Options(quantize, max_drop, metric, growth_bytes, cast, progress or _say_nothing)
    if not isinstance(module, Mapping):
        if args is None:
            raise ArgumentError("export needs args: one example for each argument of forward")
        check_module(module)
        traced = {ONLY_METHOD: _trace(Method(module, args, dynamic_shapes, calibration), module, wishes)}

        def write() -> Program:
            only = _compile_traced(traced[ONLY_METHOD], wishes)
            wishes.progress("write")
            return only.write()

        return _find_or_make(write, traced, {ONLY_METHOD: module}, wishes, cache)
    if args is not None or dynamic_shapes is not None or calibration is not None:
        raise ArgumentError("give args, dynamic_shapes and calibration of several methods with each Method")
    check_methods(module)
    entries = {name: entry_of(method) for name, method in module.items()}
    holding = {name: hold_tensors(entry) for name, entry in entries.items()}
    named = {name: replace(wishes, progress=_name_method(name, wishes.progress)) for name in entries}
    traced = {name: _trace(method, entries[name], named[name]) for name, method in module.items()}
    kept = list_kept({name: each.captured.states for name, each in traced.items()}, holding)
    for name, buffers in kept.items():
        if buffers:  # their elements were known in the trace
            traced[name] = _trace(module[name], entries[name], named[name], buffers)
    compiled = ((name, _compile_traced(each, named[name])) for name, each in traced.items())
    return _find_or_make(lambda: join_methods(compiled, holding, wishes.progress), traced, holding, wishes, cache)


def _find_or_make(
    make: Callable[[], Program],
    traced: "Mapping[str, _Traced]",
    entries: Mapping[str, nn.Module],
    wishes: _Options,
    cache: bool | str | os.PathLike[str],
) -> Program:
    """Return the program that a cache has of these traces, or the one that is made, which is kept."""
    if cache is False or wishes.quantize is not None:
        return make()
    options = [wishes.cast, wishes.growth_bytes, *((name, each.own_half) for name, each in traced.items())]
    key = key_of({name: each.captured for name, each in traced.items()}, entries, options)
    if key is None:
        return make()
    kept = ExportCache(default_folder() if cache is True else Path(cache))
    found = kept.find(key)
    if found is not None:
        return Program(found, [("capture", str(each.captured.program.graph)) for each in traced.values()])
    program = make()
    kept.put(key, bytes(program))
    return program


@dataclass(frozen=True)
class _Traced:
    """The trace of an entry point, its real inputs, and the 16 bits of its weights, if they have them and stay so."""

    captured: Captured
    calibration: object
    own_half: DType | None


def _trace(method: Method, module: nn.Module, wishes: _Options, kept: frozenset[str] = frozenset()) -> _Traced:
    """Return the trace of one entry point; `module` is the one whose `forward` it is, others change `kept` buffers."""
    own_half = None if wishes.cast is None else half_type(module)
    module, args, calibration = cast_all(wishes.cast, module, method.args, method.calibration)
    options_of(wishes.quantize, calibration, wishes.max_drop, wishes.metric)  # what is wrong with them comes first
    wishes.progress("trace")
    return _Traced(
        _capture(module_of(with_plain_layers(module)), args, method.dynamic_shapes, kept), calibration, own_half
    )


def _compile_traced(traced: _Traced, wishes: _Options) -> Compiled:
    """Return one entry point, by the passes in order."""
    captured, calibration, own_half = traced.captured, traced.calibration, traced.own_half
    options = options_of(wishes.quantize, calibration, wishes.max_drop, wishes.metric)
    passes: list[tuple[str, str]] = []

    def record(name: str, graph: Graph) -> Graph:
        passes.append((name, render(graph)))
        return graph

    passes.append(("capture", str(captured.program.graph)))

    def compile_program(*, computes_sizes: bool) -> Compiled:
        # What pays is chosen at the largest sizes, which come first: a program has the same operators at all sizes.
        orders: Choices = {}
        wishes.progress("lower")

        def fused_at(sizes: Mapping[str, int], record: Record = _ignore) -> Graph:
            graph = record("lower", lower(captured, sizes, computes_sizes=computes_sizes))
            graph = record("eliminate_dead_code", eliminate_dead_code(graph))
            graph = legalize(graph)
            graph = record("layout", layout(graph, orders))
            return record("narrow", narrow(record("fuse", fuse(graph))))

        quantizer = Quantizer(options)
        if options is not None and calibration is not None:
            largest = without_terms(fused_at(captured.largest()))
            wishes.progress("calibrate")
            quantizer = Quantizer.calibrate(options, largest, calibration, Budget(wishes.max_drop, wishes.metric))

        def gated_at(sizes: Mapping[str, int], record: Record = _ignore) -> Graph:
            return record(
                "fuse_gated_activations", fuse_gated_activations(record("quantize", quantizer(fused_at(sizes, record))))
            )

        largest_graph = gated_at(captured.largest(), record)
        wishes.progress("choose forms")
        parted = choose_split(without_terms(largest_graph))
        largest_graph = record("split_concats", split_concats(largest_graph, parted))
        plain = without_terms(largest_graph)
        in_form = choose_winograd(plain, _growth_bytes(wishes, options))
        by_rows = choose_separable(plain)

        def compile_at(sizes: Mapping[str, int]) -> Graph:
            parts = split_concats(gated_at(sizes), parted)
            fused = fuse_squeeze_excite(fuse_depthwise_separable(winograd(parts, in_form), by_rows))
            return write_state_rows(choose_activations(keep_channels_first(fused, in_order)))

        first = record("winograd", winograd(largest_graph, in_form))
        first = record("fuse_depthwise_separable", fuse_depthwise_separable(first, by_rows))
        first = record("fuse_squeeze_excite", fuse_squeeze_excite(first))
        in_order = choose_channels_first(first, is_half=(half_of(options) or own_half) is not None)
        first = record("keep_channels_first", keep_channels_first(first, in_order))
        first = record("write_state_rows", write_state_rows(record("choose_activations", choose_activations(first))))
        wishes.progress("find sizes" if captured.symbols else "pack")
        if not captured.symbols:
            return Compiled(emit_program(first, record_text, half_of(options) or own_half), passes, quantizer.report)
        data = program_at_every_size(
            captured,
            lambda sizes: pack(compile_at(sizes)),
            record_text,
            has_constants=not computes_sizes,
            half=half_of(options) or own_half,
        )
        return Compiled(data, passes, quantizer.report)

    def record_text(name: str, text: str) -> None:
        passes.append((name, text))

    captures = len(passes)
    try:
        return compile_program(computes_sizes=False)
    except ExportError:
        if not captured.symbols:
            raise
        del passes[captures:]  # a program may compute with sizes what cannot be a constant for all of them
        with contextlib.suppress(ExportError):
            return compile_program(computes_sizes=True)
        raise


def _growth_bytes(wishes: _Options, options: Quantization | None) -> int:
    """Return by how much weights may grow: Winograd's form has none of 16 bits."""
    if wishes.growth_bytes is not None:
        return wishes.growth_bytes
    return GROWTH_BYTES if half_of(options) is None else 0


def _capture(module: nn.Module, args: Sequence[object], dynamic_shapes: object, kept: frozenset[str]) -> Captured:
    """Return the trace of a module, in which tensors of lists and objects are buffers, if that can be."""
    holding = hold_tensors(module)
    try:
        return capture(holding, args, dynamic_shapes, kept)
    except ExportError:
        if holding is module or kept.difference(name for name, _ in module.named_buffers(remove_duplicate=False)):
            raise
        with contextlib.suppress(ExportError):  # a module may look at constants in lists, which it can't at buffers
            return capture(module, args, dynamic_shapes, kept)
        raise


def _say_nothing(_step: str) -> None:
    pass


def _name_method(name: str, progress: Progress) -> Progress:
    return lambda step: progress(f"{name}: {step}")


def _ignore(_name: str, graph: Graph) -> Graph:
    return graph
