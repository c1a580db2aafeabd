"""The ledger's file: what is debited is on the disk, and a full disk or a second process gives no new budget."""

import errno
import os
import stat
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from alcove.privacy import BudgetExceededError, BudgetLimits, Ledger, LedgerStorageError
from alcove.sdk.ledger_file import LedgerFile
from alcove.sdk.storage import Files
from alcove.sdk.testing import ManualClock

TASK = bytes(range(32))
ONE = Fraction(1)


def open_ledger(path: Path) -> Ledger:
    """Return a ledger in a file."""
    return Ledger(LedgerFile(path, Files()), BudgetLimits(), ManualClock())


def test_debit_is_on_disk_before_it_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file and its folder are synced after the write and before the return (I1)."""
    calls: list[str] = []
    write, fsync = os.write, os.fsync

    def record_write(descriptor: int, data: bytes) -> int:
        calls.append("write")
        return write(descriptor, data)

    def record_fsync(descriptor: int) -> None:
        calls.append("sync folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "sync file")
        fsync(descriptor)

    monkeypatch.setattr(os, "write", record_write)
    monkeypatch.setattr(os, "fsync", record_fsync)
    open_ledger(tmp_path / "ledger").debit(TASK, 0, ONE)
    assert calls == ["write", "sync file", "sync folder"]
    assert (tmp_path / "ledger").stat().st_mode & 0o777 == 0o600


def test_every_failing_system_call_gives_a_typed_error_and_no_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Open, lock, write and sync fail one after another; what was debited after that stays within the cap."""
    for name in ("open", "write", "fsync"):
        for failing in range(1, 6):
            path = tmp_path / f"{name}{failing}"
            real = getattr(os, name)
            calls = [0]

            def fail(*args: Any, real: Any = real, calls: list[int] = calls, failing: int = failing) -> Any:
                calls[0] += 1
                if calls[0] == failing:
                    raise OSError(errno.ENOSPC, "No space left on device")
                return real(*args)

            made = 0
            reasons: list[str] = []
            with monkeypatch.context() as patch:
                patch.setattr(os, name, fail)
                for window in range(4):
                    try:
                        open_ledger(path).debit(TASK, window, ONE)
                        made += 1
                    except LedgerStorageError as error:
                        reasons.append(error.reason)
                    except BudgetExceededError:
                        pass
            assert made <= 2
            assert len(reasons) == (calls[0] >= failing)
            assert all("No space left" in reason for reason in reasons)


def test_short_write_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that writes one byte at a time still writes the line."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:1]))
    open_ledger(tmp_path / "ledger").debit(TASK, 0, ONE)
    assert open_ledger(tmp_path / "ledger").spending().reports == 1


def test_unreadable_ledger_gives_no_budget(tmp_path: Path) -> None:
    """Something else in the file's place is a typed error, not an empty ledger."""
    (tmp_path / "ledger").mkdir()
    with pytest.raises(LedgerStorageError, match="ledger: lock failed"):
        open_ledger(tmp_path / "ledger").debit(TASK, 0, ONE)
    with pytest.raises(LedgerStorageError, match="read failed"):
        open_ledger(tmp_path / "ledger").spending()


SPENDER = """
import sys
from fractions import Fraction
from pathlib import Path
from alcove.privacy import AlreadyReportedError, BudgetExceededError, BudgetLimits, Ledger
from alcove.sdk.ledger_file import LedgerFile
from alcove.sdk.storage import Files
from alcove.sdk.testing import ManualClock

ledger = Ledger(LedgerFile(Path(sys.argv[1]), Files()), BudgetLimits(), ManualClock())
made = []
for window in range(40):
    try:
        ledger.debit(bytes(32), window, Fraction(1, 6))
        made.append(window)
    except (AlreadyReportedError, BudgetExceededError):
        pass
print(*made)
"""


def test_processes_that_share_a_ledger_share_the_budget(tmp_path: Path) -> None:
    """Three processes spend as fast as they can: no window twice, no more than the cap in all (I6)."""
    command = [sys.executable, "-c", SPENDER, str(tmp_path / "ledger")]
    spenders = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    made = [int(window) for spender in spenders for window in spender.communicate()[0].split()]
    assert all(spender.returncode == 0 for spender in spenders)
    assert len(made) == len(set(made)) == 12
    assert len((tmp_path / "ledger").read_bytes().splitlines()) == 12
