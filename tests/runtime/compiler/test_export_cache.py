"""A program is found again where nothing that it was made of has changed, and nowhere else."""

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from alcove.runtime import Method, export
from alcove.runtime.compiler import export_cache
from alcove.runtime.compiler.export_cache import ExportCache
from torch import Tensor, nn
from torch.export import Dim

if TYPE_CHECKING:
    from collections.abc import Callable


class Small(nn.Module):
    """A product and a function of it."""

    def __init__(self, scale: float = 2.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 3)
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        """Return f32 [n, 3]."""
        return torch.relu(self.layer(x)) * self.scale

    def step(self, x: Tensor) -> Tensor:
        """Return f32 [n, 3]."""
        result: Tensor = self.layer(x)
        return result


def make(folder: Path, module: nn.Module | None = None, rows: int = 2, **options: Any) -> tuple[bytes, bool]:
    """Export, and return the bytes and whether they were found."""
    steps: list[str] = []
    program = export((module or Small()).eval(), (torch.ones(rows, 4),), cache=folder, progress=steps.append, **options)
    return bytes(program), steps == ["trace"]


def change_one_bit() -> nn.Module:
    """Return the module with another last bit in one weight."""
    module = Small()
    with torch.no_grad():
        module.layer.weight.view(torch.int32)[1, 2] ^= 1
    return module


def test_what_was_exported_before_is_found_and_is_the_same(tmp_path: Path) -> None:
    """Of an equal module that is another object; the entry is the user's alone."""
    folder = tmp_path / "new" / "exports"
    first, was_found = make(folder)
    assert not was_found
    assert make(folder) == (first, True)
    (entry,) = folder.iterdir()
    assert entry.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700


def test_any_change_of_what_a_program_is_made_of_is_a_miss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A weight's bit, a number, a shape, a bound, an option, the code; and what was there is found after all."""
    first, _ = make(tmp_path)
    varying: dict[str, Any] = {"dynamic_shapes": ({0: Dim("n", min=1, max=4)},)}
    changes: list[Callable[[], tuple[bytes, bool]]] = [
        lambda: make(tmp_path, change_one_bit()),
        lambda: make(tmp_path, Small(2.5)),
        lambda: make(tmp_path, rows=3),
        lambda: make(tmp_path, growth_bytes=0),
        lambda: make(tmp_path, cast="float32"),
        lambda: make(tmp_path, **varying),
        lambda: make(tmp_path, dynamic_shapes=({0: Dim("n", min=1, max=5)},)),
        lambda: make(tmp_path, dynamic_shapes=({0: Dim("m", min=1, max=4)},)),
    ]
    for change in changes:
        assert not change()[1]
    assert make(tmp_path, **varying)[1]
    assert make(tmp_path) == (first, True)
    monkeypatch.setattr(export_cache, "_code", lambda: b"another build")
    assert make(tmp_path) == (first, False)


def test_methods_are_found_together(tmp_path: Path) -> None:
    """Under their names, in their order."""
    module, x = Small().eval(), torch.ones(1, 4)

    def both(*names: str) -> tuple[bytes, bool]:
        steps: list[str] = []
        entries = dict(zip(names, (Method(module, (x,)), Method(module.step, (x,))), strict=True))
        program = export(entries, cache=tmp_path, progress=steps.append)
        return bytes(program), "write" not in steps

    first = both("whole", "step")
    assert not first[1]
    assert both("whole", "step") == (first[0], True)
    assert not both("step", "whole")[1]


def test_an_entry_that_is_not_whole_or_not_the_users_is_a_miss_and_replaced(tmp_path: Path) -> None:
    """Each part flipped, cut off at any place, another program, a link, others may write it; a folder that they may."""
    first, _ = make(tmp_path)
    (entry,) = tmp_path.iterdir()
    whole = entry.read_bytes()
    flips = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(0, len(whole), 1999)]
    for damaged in [*flips, *(whole[:size] for size in (0, 31, 32, len(whole) // 2, len(whole) - 1)), whole + b"\0"]:
        entry.write_bytes(damaged)
        assert ExportCache(tmp_path).find(bytes.fromhex(entry.stem)) is None
    assert make(tmp_path) == (first, False)
    assert entry.read_bytes() == whole
    key = bytes.fromhex(entry.stem)
    entry.chmod(0o620)
    assert ExportCache(tmp_path).find(key) is None
    entry.chmod(0o600)
    assert ExportCache(tmp_path).find(key) == first
    entry.rename(tmp_path / "elsewhere")
    entry.symlink_to(tmp_path / "elsewhere")
    assert ExportCache(tmp_path).find(key) is None
    entry.unlink()
    entry.mkdir()
    assert ExportCache(tmp_path).find(key) is None
    entry.rmdir()
    os.mkfifo(entry)
    assert ExportCache(tmp_path).find(key) is None
    entry.unlink()
    ExportCache(tmp_path).put(key, b"no program")
    assert ExportCache(tmp_path).find(key) is None
    ExportCache(tmp_path).put(key, first)
    tmp_path.chmod(0o777)
    assert ExportCache(tmp_path).find(key) is None


def test_entries_read_longest_ago_go_where_there_are_too_many(tmp_path: Path) -> None:
    """The bound holds after each; one beyond it is not kept; a folder that cannot be is no error."""
    first, _ = make(tmp_path / "one")
    cache = ExportCache(tmp_path / "two", max_bytes=2 * (len(first) + 32))
    keys = [bytes([number]) * 32 for number in range(3)]
    for age, key in enumerate(keys[:2]):
        cache.put(key, first)
        (path,) = (tmp_path / "two").glob(f"{key.hex()}*")
        os.utime(path, (age, age))
    assert cache.find(keys[0]) == first
    cache.put(keys[2], first)
    assert [cache.find(key) is not None for key in keys] == [True, False, True]
    cache.put(keys[1], bytes(3 * len(first)))
    assert cache.find(keys[1]) is None
    (tmp_path / "file").write_bytes(b"")
    ExportCache(tmp_path / "file" / "below").put(keys[0], first)


def test_two_writers_of_one_entry_leave_one_that_is_whole(tmp_path: Path) -> None:
    """Readers beside them find nothing or the program."""
    first, _ = make(tmp_path / "one")
    cache, key = ExportCache(tmp_path / "two"), bytes(32)
    found: list[bytes | None] = []

    def work() -> None:
        for _ in range(20):
            cache.put(key, first)
            found.append(cache.find(key))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(found) == {first}
    assert [path.suffix for path in (tmp_path / "two").iterdir()] == [".program"]


@torch.library.custom_op("tests_export_cache::half", mutates_args=())
def half(x: Tensor) -> Tensor:
    """Return half of x."""
    return x * 0.5


@half.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


class Foreign(Small):
    """Computes a constant by somebody else's operator."""

    def forward(self, x: Tensor) -> Tensor:
        """Return f32 [n, 3]."""
        result: Tensor = self.layer(x) + half(self.layer.bias)
        return result


def test_operators_of_others_and_quantized_exports_have_no_entry(tmp_path: Path) -> None:
    """Their code, or their samples, have no digest."""
    assert not make(tmp_path, Foreign())[1]
    assert not make(tmp_path, Foreign())[1]
    assert not make(tmp_path, quantize="int8_weights")[1]
    assert not make(tmp_path, quantize="int8_weights")[1]
    assert not list(tmp_path.iterdir())
