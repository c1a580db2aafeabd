"""Every class of malformed program that broke another engine is refused here, with one test for each row of the table.

`benchmarks/malformed.py` makes the programs, a folder for each row; what fuzzing found once lies in `findings`.
"""

from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from alcove.runtime import ProgramError, load

FOLDER = Path(__file__).parent
CODES = {
    "cwe_190_680_overflow_in_size": "padding tensor_shape tensor_size tensor_offset plan_size section_range "
    "section_size header_memory_ceiling",
    "cwe_131_122_size_mismatch": "op_shape tensor_size tensor_offset",
    "cwe_125_787_index": "tensor_index op_attribute",
    "data_dependent_index": "index_bound",
    "cwe_369_division": "op_attribute",
    "cwe_476_absent_field": "op_arity program_size op_unknown section_flags header_file_size",
    "cwe_674_835_400_loops": "tensor_undefined tensor_redefined size_expression",
    "cwe_770_789_counts": "section_count count_limit program_size string_limit header_file_size",
    "cwe_843_type_confusion": "tensor_dtype tensor_layout tensor_storage op_type state_tensor tensor_offset",
    "cwe_191_sign": "op_attribute",
    "cwe_121_stack": "tensor_shape op_arity",
    "cwe_416_aliasing": "plan_overlap plan_size",
    "cwe_908_not_written": "tensor_redefined tensor_offset state_tensor",
    "cwe_617_float_traps": "op_attribute",
    "nested_blob": "string_text program_size section_flags section_size",
}
"""The rules that a row's programs break, all of them."""
OF_ONE = {"op_attribute", "op_arity", "op_shape", "op_type", "op_unknown", "index_bound", "tensor_shape", "tensor_size"}
"""Rules of one op or tensor, which the error names."""


@pytest.fixture(scope="module")
def malformed(repository: Path) -> ModuleType:
    """benchmarks/malformed.py."""
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(repository))
        return import_module("benchmarks.malformed")


@pytest.mark.parametrize("row", sorted(CODES))
def test_every_program_of_a_row_is_refused_by_the_rule_that_it_breaks(malformed: ModuleType, row: str) -> None:
    """A ProgramError with section, code and, where the rule is one of an op or tensor, which one."""
    codes = set()
    for name, program in malformed.ROWS[row]():
        with pytest.raises(ProgramError) as caught:
            load(program)
        error = caught.value
        codes.add(error.code)
        assert error.section in {"file", "header", "table", "program", "certificate", "weights"}, name
        assert error.code not in OF_ONE or error.op is not None or error.tensor is not None, (name, str(error))
    assert codes == set(CODES[row].split())


def test_every_row_is_tested(malformed: ModuleType) -> None:
    """A new row needs its codes."""
    assert malformed.ROWS.keys() == CODES.keys()


def test_folders_hold_a_program_for_each_case(malformed: ModuleType, tmp_path: Path) -> None:
    """No two cases of a row have the same name, and every file is refused as its bytes are."""
    malformed.write(tmp_path)
    for row, cases in malformed.ROWS.items():
        files = sorted((tmp_path / row).iterdir())
        assert {path.read_bytes() for path in files} == {program for _, program in cases()}
        with pytest.raises(ProgramError):
            load(files[0])


@pytest.mark.parametrize("path", sorted((FOLDER / "findings").glob("*.alc")), ids=lambda path: path.stem)
def test_what_fuzzing_found_once_is_refused(path: Path) -> None:
    """An output that is the scratch of an op, which threads share out: its port is refused."""
    with pytest.raises(ProgramError) as caught:
        load(path)
    assert caught.value.code == "port_tensor"
