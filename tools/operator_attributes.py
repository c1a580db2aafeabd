"""Generates `runtime/format/attributes.py`, one line for each operator's attributes, from the manifest.

    python -m tools.operator_attributes            # writes the module
    python -m tools.operator_attributes --check    # fails if the committed module differs

Numbered attributes of the manifest (`stride0 stride1 ...`) are one tuple (`strides`), padded with zeros.
"""

import argparse
import re
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
MANIFEST: Final = ROOT / "kernels" / "manifest.inc"
MODULE: Final = ROOT / "runtime" / "format" / "attributes.py"

_OPERATOR: Final = re.compile(
    r'^ALCOVE_OP\(\s*\d+,\s*(\w+),\s*\d+,\s*\d+,\s*\d+,\s*((?:"[^"]*"\s*)+),\s*\w+\)', re.MULTILINE
)
_TYPES: Final = {"i64": "int", "u64": "int", "f64": "float"}
_PLURALS: Final = {"stride": "strides", "bound": "bounds"}
_HEAD: Final = '''"""Attributes of the operators by name.

Generated from kernels/manifest.inc by `python -m tools.operator_attributes`; do not edit.
"""
# ruff: noqa: D101, E501, E701, E702, I001
# fmt: off

from typing import ClassVar

from alcove.runtime.format.named_attributes import Attributes

'''


def operators(manifest: str) -> dict[str, list[tuple[str, str]]]:
    """Return the attributes, (name, type in the file), of each operator in the manifest's order."""
    return {
        name: [(each.split(":")[0], each.split(":")[1]) for each in "".join(re.findall(r'"([^"]*)"', text)).split()]
        for name, text in _OPERATOR.findall(manifest)
    }


def class_name(operator: str) -> str:
    """Return the name of the class of an operator's attributes."""
    return "".join(part[:1].upper() + part[1:] for part in operator.split("_")) + "Attributes"


def module(manifest: str) -> str:
    """Return the source of the generated module."""
    found = {name: attributes for name, attributes in operators(manifest).items() if attributes}
    lines = (f"class {class_name(name)}(Attributes): {'; '.join(_fields(each))}\n" for name, each in found.items())
    return _HEAD + "".join(lines)


def _fields(attributes: list[tuple[str, str]]) -> list[str]:
    counts: dict[str, int] = {}
    kinds: dict[str, str] = {}
    for name, kind in attributes:
        numbered = re.fullmatch(r"(\D+)\d+", name)
        field = _PLURALS.get(numbered[1], numbered[1]) if numbered else name
        counts[field] = counts.get(field, 0) + (1 if numbered else 0)
        kinds[field] = _TYPES[kind]
    lengths = ", ".join(f'"{field}": {count}' for field, count in counts.items() if count)
    lines = [f"{field}: " + (f"tuple[{kinds[field]}, ...]" if counts[field] else kinds[field]) for field in counts]
    return [*([f"LENGTHS: ClassVar = {{{lengths}}}"] if lengths else []), *lines]


def main() -> int:
    """Write the module, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare only")
    source = module(MANIFEST.read_text())
    if parser.parse_args().check:
        if MODULE.read_text() != source:
            sys.stderr.write(f"{MODULE} differs from kernels/manifest.inc: run python -m tools.operator_attributes\n")
            return 1
        return 0
    MODULE.write_text(source)
    return 0


if __name__ == "__main__":
    sys.exit(main())
