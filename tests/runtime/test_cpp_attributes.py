"""The runtime's C++ names attributes as the manifest does; what the manifest does not say does not compile."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

POSITION = re.compile(r"\battributes\[\s*\d|\b(?:check_)?(?:integer|real|bits|finite|int8|scale)\(\s*(?:s,\s*)?\d")
"""An attribute that is read by its position."""
HEADER = '#include "core/ops/attributes.h"\nusing namespace alcove;\nusing namespace alcove::ops;\n'
ACCEPTED = """
constexpr Integer kOne{OpCode::conv2d, "groups"}, kTwo{{OpCode::conv2d, OpCode::conv2d_i8}, "groups"};
constexpr Real kReal{OpCode::conv2d, "low"};
constexpr Bits kBits{OpCode::fill, "bits"};
constexpr Integers kPad{{OpCode::conv2d}, "pad", {"_top", "_left"}};
constexpr ActivationAttributes kExpand{OpCode::separable_conv2d, "expand_"};
int64_t read(const Op& op) { return kOne.read(op) + kTwo.read(op) + kPad[1].read(op) + kExpand.function.read(op); }
double read_real(const Op& op) { return kReal.read(op) + kExpand.low.read(op); }
uint64_t read_bits(const Op& op) { return kBits.read(op); }
void take(Integer);
void give() { take(kOne); }
"""
REFUSED = {
    "a name that the operator lacks": 'constexpr Integer kX{OpCode::conv2d, "group"};\n',
    "a real as an integer": 'constexpr Integer kX{OpCode::conv2d, "low"};\n',
    "an integer as a real": 'constexpr Real kX{OpCode::conv2d, "groups"};\n',
    "bits as an integer": 'constexpr Integer kX{OpCode::fill, "bits"};\n',
    "operators that differ": 'constexpr Integer kX{{OpCode::conv2d, OpCode::conv2d_i8}, "low"};\n',
    "positions that differ": 'constexpr Integer kX{{OpCode::conv2d, OpCode::group_norm}, "groups"};\n',
    "names that are no neighbors": 'constexpr Integers kX{{OpCode::conv2d}, "", {"pad_top", "stride_h"}};\n',
    "an activation that the operator lacks": "constexpr ActivationAttributes kX{OpCode::matmul};\n",
    "a number": "void f(Integer);\nvoid g() { f(3); }\n",
    "a real for an integer": 'constexpr Real kX{OpCode::conv2d, "low"};\nvoid f(Integer);\nvoid g() { f(kX); }\n',
}


def compiles(repository: Path, source: str) -> bool:
    """Tell whether a compiler accepts the source after the header of attributes."""
    compiler = shutil.which("c++")
    assert compiler is not None
    command = [
        compiler,
        "-std=c++20",
        "-fsyntax-only",
        "-xc++",
        f"-I{repository}",
        f"-I{repository}/runtime/native",
        "-",
    ]
    return subprocess.run(command, input=HEADER + source, text=True, capture_output=True, check=False).returncode == 0


def test_attributes_of_the_manifest_compile(repository: Path) -> None:
    """Names of one operator, of several that have them at one position, of a row and of an activation."""
    assert compiles(repository, ACCEPTED)


@pytest.mark.parametrize("source", REFUSED.values(), ids=REFUSED)
def test_attribute_that_the_manifest_lacks_does_not_compile(repository: Path, source: str) -> None:
    """A wrong name, type or position is no finding of a test but an error of the compiler."""
    assert not compiles(repository, source)


def test_no_attribute_is_read_by_position(repository: Path) -> None:
    """Positions are what the manifest and what is generated from it say, in C++ and in Python."""
    roots = [repository / name for name in ("benchmarks", "features", "kernels", "runtime", "sdk", "tests", "tools")]
    found = [
        f"{path.relative_to(repository)}:{number}: {line.strip()}"
        for root in roots
        for path in sorted(root.rglob("*"))
        if path.suffix in {".cpp", ".h", ".hpp", ".py"} and path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if POSITION.search(line)
    ]
    assert not found, found


@pytest.mark.parametrize("line", ["c.integer(0)", "s.real(3)", "check_integer(s, 1,", "op.attributes[2]", "s.bits( 1)"])
def test_read_by_position_is_found(line: str) -> None:
    """The forms that were in use."""
    assert POSITION.search(line)
