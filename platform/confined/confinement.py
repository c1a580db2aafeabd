"""Confines this process for good to what running a program needs.

    limits       processor time, memory, files written (none), descriptors, core dumps
    privileges   nothing gains any; it ends when its parent does, and signals itself alone
    network      a namespace of its own without an interface, where the system lets us
    system calls an allow-list: memory, clocks, reading and writing what is open; everything else is EPERM

The last needs Linux on x86-64 or 64-bit ARM.  Elsewhere the limits alone hold, and `confine` says so.  Whatever is to
be imported must be imported before, and every thread started: all of them are confined, and nothing more can be opened
or started afterwards.

Source of the numbers: linux/arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h.
"""

import contextlib
import ctypes
import errno
import os
import platform
import resource
import signal
import struct
import sys
from typing import Final

__all__ = ["Confined", "confine"]

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 1, 4, 38
SET_MODE_FILTER, ALL_THREADS = 1, 1
CLONE_NEWNET = 0x40000000
DESCRIPTORS: Final = 32

# Name: number on x86-64, on 64-bit ARM; None: it has no such call.
_ALLOWED: Final[dict[str, tuple[int | None, int | None]]] = {
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "fstat": (5, 80), "lseek": (8, 62), "pread64": (17, 67),
    "mmap": (9, 222), "mprotect": (10, 226), "munmap": (11, 215), "mremap": (25, 216), "madvise": (28, 233),
    "brk": (12, 214), "futex": (202, 98), "set_robust_list": (273, 99), "rseq": (334, 293), "membarrier": (324, 283),
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "sigaltstack": (131, 132),
    "restart_syscall": (219, 128), "sched_yield": (24, 124), "sched_getaffinity": (204, 123),
    "gettid": (186, 178), "getpid": (39, 172), "exit": (60, 93), "exit_group": (231, 94),
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115), "nanosleep": (35, 101),
    "gettimeofday": (96, 169), "getrandom": (318, 278), "getrusage": (98, 165), "poll": (7, None), "ppoll": (271, 73),
    "getcpu": (309, 168), "sysinfo": (99, 179),
}  # fmt: skip
_TGKILL: Final = (234, 131)
_SECCOMP: Final = (317, 277)
_MACHINES: Final = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column, and what seccomp calls it
_X32: Final = 0x40000000  # bit of the calls of a third system on x86-64

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # of the filter's machine
_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_ERRNO: Final = 0x00050000


class Confined:
    """Which of the confinements hold.

    Attributes:
        calls: whether system calls are filtered.
        network: whether the network is another one, without an interface.
    """

    def __init__(self, *, calls: bool, network: bool) -> None:
        self.calls, self.network = calls, network


def confine(*, cpu_s: int, memory_bytes: int) -> Confined:
    """Confine this process.

    Args:
        cpu_s: seconds of processor time from now on; then it is ended by SIGXCPU.
        memory_bytes: addresses that it may take beyond those that it has.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    spent_s = int(used.ru_utime + used.ru_stime) + 1
    _limit(resource.RLIMIT_CPU, spent_s + cpu_s, spent_s + cpu_s + 1)
    _limit(resource.RLIMIT_AS, _addresses() + memory_bytes)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NOFILE, DESCRIPTORS)
    with contextlib.suppress(OSError):
        os.nice(10)
    if not sys.platform.startswith("linux"):
        return Confined(calls=False, network=False)
    library = ctypes.CDLL(None, use_errno=True)
    library.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    library.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    network = library.unshare(CLONE_NEWNET) == 0
    return Confined(calls=_filter_calls(library), network=network)


def _limit(which: int, soft: int, hard: int | None = None) -> None:
    _, most = resource.getrlimit(which)
    hard = soft if hard is None else hard
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    resource.setrlimit(which, (soft, hard))


def _addresses() -> int:
    """Return the bytes of addresses that this process has."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - before confinement, without pathlib
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 512 * 1024 * 1024


def program_of_filter(machine: str, process: int) -> bytes:
    """Return the filter's instructions, as the kernel reads them.

    Args:
        machine: as `platform.machine` names it.
        process: number of the process that is filtered, the only one that it may signal.

    Raises:
        KeyError: no numbers are known for this machine.
    """
    column, architecture = _MACHINES[machine]
    numbers = [pair[column] for pair in _ALLOWED.values()]
    allowed = sorted(number for number in numbers if number is not None)
    deny = _step(_RETURN, _ERRNO | errno.EPERM)
    steps = [
        _step(_LOAD, 4),
        _step(_EQUAL, architecture, yes=1),
        _step(_RETURN, _KILL),
        _step(_LOAD, 0),
        _step(_AT_LEAST, _X32, no=1),
        deny,
    ]
    for number in allowed:
        steps += [_step(_EQUAL, number, no=1), _step(_RETURN, _ALLOW)]
    # Signals to itself, as `abort` sends; every process of the same user, the server's too, would take them else.
    steps += [
        _step(_EQUAL, _TGKILL[column], no=4),
        _step(_LOAD, 16),
        _step(_EQUAL, process, no=1),
        _step(_RETURN, _ALLOW),
        deny,
    ]
    steps.append(deny)
    return b"".join(steps)


def _step(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))


def _filter_calls(library: ctypes.CDLL) -> bool:
    """Let only the listed system calls pass from now on; False where this system has no such filter."""
    try:
        steps = program_of_filter(platform.machine(), os.getpid())
    except KeyError:
        return False
    call = _SECCOMP[_MACHINES[platform.machine()][0]]
    buffer = ctypes.create_string_buffer(steps, len(steps))
    program = _Program(len(steps) // 8, ctypes.addressof(buffer))
    if library.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    return bool(library.syscall(call, SET_MODE_FILTER, ALL_THREADS, ctypes.byref(program)) == 0)
