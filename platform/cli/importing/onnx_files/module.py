"""Defines the torch module of a file in the ONNX format: its nodes in order, each a step with the tensors it holds."""

import inspect
import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import torch
from alcove.platform.cli.importing.onnx_files.node import Function
from alcove.platform.cli.importing.onnx_files.tensors import computed_dtype
from numpy.typing import NDArray
from torch import Tensor, nn

LONGEST: Final = 48
"""Characters of a step's name; names of a program's constants are made of them."""


class Step(nn.Module):
    """One node.

    Args:
        function: takes all tensors of the node, None for one that is left out.
        sources: of each tensor the slot that it is read from, the name under which the step holds it, or None.
        held: constants by that name; in float32 they are parameters.
        results: slots of the outputs, None for one that nothing reads.
        drops: slots that no later step reads.
    """

    def __init__(
        self,
        function: Function,
        sources: Sequence[int | str | None],
        held: Mapping[str, Tensor],
        results: Sequence[int | None],
    ) -> None:
        super().__init__()
        self.function = function
        self.sources = tuple(sources)
        self.results = tuple(results)
        self.drops: tuple[int, ...] = ()
        for name, tensor in held.items():
            if isinstance(tensor, nn.Parameter):
                self.register_parameter(name, tensor)
            else:
                self.register_buffer(name, tensor)

    def forward(self, *read: Tensor) -> tuple[Tensor | None, ...]:
        """Return the outputs for the tensors that are read from slots."""
        slots = iter(read)
        arguments = [
            next(slots) if isinstance(source, int) else None if source is None else getattr(self, source)
            for source in self.sources
        ]
        found = self.function(*arguments)
        outputs = found if isinstance(found, tuple | list) else (found,)
        return tuple(as_computed(output) for output in outputs)


def as_computed(tensor: Any) -> Any:
    """Return a tensor in a type in which programs compute."""
    if isinstance(tensor, Tensor) and computed_dtype(tensor.dtype) is not tensor.dtype:
        return tensor.to(computed_dtype(tensor.dtype))
    return tensor


class OnnxModule(nn.Module):
    """The nodes of a graph; takes its inputs in order, gives its outputs by name.

    Attributes:
        steps: in order.
        input_names: as the file has them.
        shapes: shape and type of each input.
        order: names of the outputs.
        is_quantized: whether it rounds to levels of quantization.
        fixed: the file's inputs that are always the same, by name.
        left: what an app computes of the outputs, for no module does; empty for nothing.
        replaced: names of the file's outputs, where others are given because of that.
    """

    is_quantized: bool = False
    fixed: Mapping[str, NDArray[Any]] = MappingProxyType({})
    left: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()

    def __init__(
        self, inputs: Mapping[str, Tensor], steps: Mapping[str, Step], outputs: Mapping[str, int | Tensor]
    ) -> None:
        super().__init__()
        self.steps = nn.ModuleDict(dict(steps))
        self.input_names = tuple(inputs)
        self.shapes = tuple((tuple(tensor.shape), tensor.dtype) for tensor in inputs.values())
        self.results = tuple((name, slot) for name, slot in outputs.items() if isinstance(slot, int))
        self.constants = tuple(name for name, slot in outputs.items() if not isinstance(slot, int))
        self.order = tuple(outputs)
        for index, constant in enumerate(slot for slot in outputs.values() if not isinstance(slot, int)):
            self.register_buffer(f"constant_{index}", constant)
        _mark_drops(list(steps.values()), {slot for _, slot in self.results})

    @property
    def examples(self) -> tuple[Tensor, ...]:
        """Zeros of the shapes and types of the inputs."""
        return tuple(torch.zeros(shape, dtype=dtype) for shape, dtype in self.shapes)

    def run_steps(self, *inputs: Tensor) -> dict[str, Tensor]:
        """Return the outputs by name."""
        slots: dict[int, Tensor] = dict(enumerate(inputs))
        for step in self.steps.values():
            assert isinstance(step, Step)  # noqa: S101 - torch's container says that it holds any module
            read = [slots[source] for source in step.sources if isinstance(source, int)]
            made = zip(step.results, step(*read), strict=False)
            slots |= {slot: output for slot, output in made if slot is not None}
            for slot in step.drops:
                del slots[slot]
        found = {name: slots[slot] for name, slot in self.results}
        found |= {name: self.get_buffer(f"constant_{index}").clone() for index, name in enumerate(self.constants)}
        return {name: found[name] for name in self.order}

    def forward(self, *inputs: Tensor) -> dict[str, Tensor]:
        """Return the outputs by name."""
        return self.run_steps(*inputs)


def _mark_drops(steps: Sequence[Step], kept: set[int]) -> None:
    """Write down after which step each slot is free."""
    for step in reversed(steps):
        read = {source for source in step.sources if isinstance(source, int)}
        made = {slot for slot in step.results if slot is not None}
        step.drops = tuple(sorted((read | made) - kept))
        kept |= read | made


def make_module(
    inputs: Mapping[str, Tensor], steps: Mapping[str, Step], outputs: Mapping[str, int | Tensor]
) -> OnnxModule:
    """Return the module, whose `forward` has the names of the inputs: a program's inputs are called so."""
    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    used = {"self"}
    for name in inputs:
        word = unique(identifier(name), used)
        parameters.append(inspect.Parameter(word, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Tensor))

    def forward(self: OnnxModule, *given: Tensor) -> dict[str, Tensor]:
        return self.run_steps(*given)

    named: Callable[..., Any] = forward
    named.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    kind = type("OnnxModule", (OnnxModule,), {"forward": named, "__doc__": OnnxModule.__doc__})
    module: OnnxModule = kind(inputs, steps, outputs)
    return module.eval()


def identifier(name: str) -> str:
    """Return a name as Python's identifiers are."""
    word = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")[-LONGEST:].lstrip("_")
    if not word or word[0].isdigit():
        word = f"n{word}"
    return f"{word}_" if keyword.iskeyword(word) else word


def unique(word: str, used: set[str]) -> str:
    """Return a word that is not taken yet, and take it."""
    found, count = word, 1
    while found in used:
        count += 1
        found = f"{word}_{count}"
    used.add(found)
    return found
