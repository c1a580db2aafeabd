"""Writes the Python source of a typed contract: what `alcove model stub` puts into a file.

Nothing of the program but its ports goes into the source: names become identifiers, and their own spelling stands in
string literals alone, so that no program, whoever made it, decides what the app runs.
"""

import keyword
import math
import re
from collections.abc import Iterable, Sequence
from typing import Final

from alcove.sdk.ports import Port

__all__ = ["class_name", "stub_source"]

_ARRAYS: Final = {
    "f32": ("np.float32", "float"),
    "i8": ("np.int8", "int"),
    "i32": ("np.int32", "int"),
    "i64": ("np.int64", "int"),
    "u8": ("np.uint8", "int"),
    "bool": ("np.bool_", "bool"),
    "label": ("np.str_", "str"),
}
"""Types of numpy's and of Python's elements, by dtype."""


def class_name(feature: str) -> str:
    """Return the name of a feature's contract: `language_id` is `LanguageId`."""
    return "".join(part.capitalize() for part in feature.split("_"))


def stub_source(feature: str, subject: str, inputs: Sequence[Port], outputs: Sequence[Port]) -> str:
    """Return the source of a module with the contract of one feature and the type of its answers.

    Args:
        feature: its name, which is an identifier.
        subject: what the ports are of, for the docstring: "polite 1.0.0".
        inputs: what it takes.
        outputs: what it gives.
    """
    kind = class_name(feature)
    takes = list(zip(_identifiers(inputs, reserved=("self",)), inputs, strict=True))
    gives = list(zip(_identifiers(outputs, reserved=()), outputs, strict=True))
    types = [_input_type(port) for port in inputs] + [_output_type(port) for port in outputs]
    text = [
        f'"""Types what the feature `{feature}` takes and gives, as of {subject}; written by `alcove model stub`."""',
        "",
        *(["from collections.abc import Sequence"] if any("Sequence" in each for each in types) else []),
        "from dataclasses import dataclass",
        "from typing import Any, ClassVar",
        "",
        *(["import numpy as np"] if any("np." in each for each in types) else []),
        "from alcove.sdk import Port, Signature",
        *(["from numpy.typing import NDArray"] if any("NDArray" in each for each in types) else []),
        "",
        f'__all__ = ["{kind}", "{kind}Answer"]',
        "",
        "",
        "@dataclass(frozen=True, slots=True, eq=False)",
        f"class {kind}Answer:",
        f'    """What `{feature}` answers."""',
        "",
        *(line for name, port in gives for line in (f"    {name}: {_output_type(port)}", f'    """{_shape(port)}"""')),
        "",
        "",
        f"class {kind}:",
        f'    """The contract of `{feature}`: `client.feature({kind})`; no program of another signature answers."""',
        "",
        f'    name: ClassVar[str] = "{feature}"',
        "    signature: ClassVar[Signature] = Signature(",
        "        inputs=(",
        *(f"            {_literal(port)}," for port in inputs),
        "        ),",
        "        outputs=(",
        *(f"            {_literal(port)}," for port in outputs),
        "        ),",
        "    )",
        "",
        "    def encode(",
        "        self,",
        *(f"        {name}: {_input_type(port)}," for name, port in takes),
        "    ) -> tuple[Any, ...]:",
        '        """Return the inputs of the program.',
        "",
        "        Args:",
        *(f"            {name}: {_shape(port)}" for name, port in takes),
        '        """',
        f"        return ({', '.join(name for name, _ in takes)},)",
        "",
        f"    def decode(self, outputs: list[Any]) -> {kind}Answer:",
        '        """Return the answer in the outputs of one run."""',
        f"        return {kind}Answer(",
        *(f"            {_decode_of(index, port)}," for index, port in enumerate(outputs)),
        "        )",
    ]
    return "\n".join(text) + "\n"


def _identifiers(ports: Iterable[Port], reserved: Iterable[str]) -> list[str]:
    """Return a name in Python for each port, no two the same."""
    names, used = [], set(reserved)
    for port in ports:
        name = re.sub(r"[^0-9A-Za-z_]+", "_", port.name).strip("_") or "port"
        name = f"port_{name}" if name[0].isdigit() else name
        base = name = f"{name}_" if keyword.iskeyword(name) or name in used else name
        number = 2
        while name in used:
            name, number = f"{base}{number}", number + 1
        used.add(name)
        names.append(name)
    return names


def _input_type(port: Port) -> str:
    if port.dtype == "text":
        return "str | bytes"
    array, element = _ARRAYS[port.dtype]
    rank = len(port.shape)
    return f"NDArray[{array}] | {'Sequence[' * rank}{element}{']' * rank}"


def _output_type(port: Port) -> str:
    array, element = _ARRAYS["label" if port.labels else port.dtype]
    return element if _is_single(port) else f"NDArray[{array}]"


def _decode_of(index: int, port: Port) -> str:
    return f"{_output_type(port)}(outputs[{index}].item())" if _is_single(port) else f"outputs[{index}]"


def _is_single(port: Port) -> bool:
    """Tell whether an output is one element in every answer."""
    return math.prod(port.shape) == 1 and not port.is_ragged and all(dim == "1" for dim in port.dims)


def _shape(port: Port) -> str:
    dims = port.dims or tuple(map(str, port.shape))
    kind = "label" if port.labels else port.dtype
    return f"{kind}[{', '.join(dims)}]" if dims else kind


def _literal(port: Port) -> str:
    shape = "" if not port.shape else f", {port.shape!r}"
    ragged = ", is_ragged=True" if port.is_ragged else ""
    labels = f", labels=({', '.join(map(_string, port.labels))},)" if port.labels else ""
    return f'Port({_string(port.name)}, "{port.dtype}"{shape}{ragged}{labels})'


def _string(text: str) -> str:
    """Return a literal of double quotes, of ASCII alone."""
    return '"' + text.encode("unicode_escape").decode("ascii").replace('"', '\\"') + '"'
