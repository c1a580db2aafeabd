"""Provides a clock that a test moves by hand, and disks that fail or forget where a test says."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from alcove.runtime.files import Disk


class ManualClock:
    """Both clocks of a machine, which stand still until they are moved.

    Attributes:
        time_s: what the wall clock shows, seconds since 1970.
        tick_ns: what each reading of the monotonic clock adds, so that a prediction takes that long.
        starts: how often the machine was started.
        names_starts: whether the system names the present start.
    """

    def __init__(
        self, time_s: int = 1_800_000_000, tick_ns: int = 1_000_000, *, up_s: int = 0, names_starts: bool = True
    ) -> None:
        """Show `time_s`; the machine has run for `up_s`."""
        self.time_s = time_s
        self.tick_ns = tick_ns
        self.starts = 1
        self.names_starts = names_starts
        self._elapsed_ns = up_s * 1_000_000_000

    def now_s(self) -> int:
        """Return `time_s`."""
        return self.time_s

    def monotonic_ns(self) -> int:
        """Return the last reading and `tick_ns` more."""
        self._elapsed_ns += self.tick_ns
        return self._elapsed_ns

    def boot_id(self) -> str:
        """Return the number of the start; "" if starts have no names."""
        return f"by hand {self.starts}" if self.names_starts else ""

    def pass_s(self, seconds: float, *, is_held: bool = False) -> None:
        """Let time pass, by both clocks; where the wall clock is held, by the monotonic one alone."""
        self._elapsed_ns += int(seconds * 1e9)
        if not is_held:
            self.time_s += int(seconds)

    def restart(self, off_s: float = 0.0, *, is_held: bool = False) -> None:
        """Start the machine again: the monotonic clock restarts, the wall clock has run unless it is held."""
        self.starts += 1
        self._elapsed_ns = 0
        if not is_held:
            self.time_s += int(off_s)


class FaultyDisk(Disk):
    """The real disk up to a chosen step, which fails as a kill would: a write may leave half of its bytes.

    Attributes:
        fail_at: the step that fails, counted from 0, and every later one; None: never.
        steps: how many steps were taken.
    """

    def __init__(self, fail_at: int | None = None) -> None:
        super().__init__(self._count)
        self.fail_at = fail_at
        self.steps = 0

    def write(self, path: Path, data: bytes) -> None:
        """Write a file, or half of it and fail."""
        try:
            super().write(path, data)
        except OSError:
            path.write_bytes(data[: len(data) // 2])
            raise

    def _count(self, _step: str, path: Path) -> None:
        step, self.steps = self.steps, self.steps + 1
        if self.fail_at is not None and step >= self.fail_at:
            raise self._failure(path)

    def _failure(self, path: Path) -> Exception:
        return OSError(5, "the disk failed on purpose", str(path))


class PowerCutError(Exception):
    """The power went; what runs on after it does not exist."""


class ForgetfulDisk(FaultyDisk):
    """The real disk, with a second one beside it that holds only what a power cut must leave.

    It promises no more than POSIX does: bytes last when their file is synced; a name (of a file, a folder, or one that
    a rename moved) lasts when the folder that it is in is synced.  The rest may be there after the cut or not, each on
    its own.  From the step `fail_at`, it raises PowerCutError.
    """

    def __init__(self, folder: Path, fail_at: int | None = None) -> None:
        """Begin with everything in `folder` lasting."""
        super().__init__(fail_at)
        self.folder = folder
        self._lasting: dict[Path, bytes | None] = {  # None: a folder
            path: None if path.is_dir() else path.read_bytes() for path in folder.rglob("*")
        }
        self._pending: list[tuple[Path, dict[Path, bytes | None]]] = []  # folder to sync, names that it will hold
        self._bytes: dict[Path, bytes] = {}  # of names that do not last yet

    def make_folder(self, folder: Path) -> None:
        """Make a folder as the real disk does, whose own syncs come back to `sync_folder`."""
        new = [place for place in (folder, *folder.parents) if not place.is_dir()]
        self._pending.extend((place.parent, {place: None}) for place in reversed(new))
        super().make_folder(folder)

    def write(self, path: Path, data: bytes) -> None:
        """Write a file: the bytes last, a new name does not yet; a cut in between leaves a part."""
        self._pending.append((path.parent, {path: data[: len(data) // 2]}))
        super().write(path, data)
        self._pending.append((path.parent, {path: data}))
        self._bytes[path] = data
        if path in self._lasting:
            self._lasting[path] = data

    def rename(self, source: Path, target: Path) -> None:
        """Rename: neither name is certain until the folder is synced."""
        super().rename(source, target)
        self._pending.append((target.parent, {target: self._bytes.pop(source)}))

    def sync_folder(self, folder: Path) -> None:
        """Make the names in `folder` last."""
        with self.step("sync folder", folder):
            for place, names in self._pending:
                if place == folder:
                    self._lasting |= names
            self._pending = [item for item in self._pending if item[0] != folder]

    def images(self) -> Iterator[dict[Path, bytes | None]]:
        """Give what may be on the disk after a cut now: nothing of what need not last, each of it alone, all of it."""
        yield dict(self._lasting)
        for _, names in self._pending:
            yield self._lasting | names
        everything = dict(self._lasting)
        for _, names in self._pending:
            everything |= names
        yield everything

    def restore(self, image: Mapping[Path, bytes | None], folder: Path) -> None:
        """Write an image into `folder`; what lies in a folder that was forgotten is gone with it."""
        for path in sorted(image):
            place = folder / path.relative_to(self.folder)
            data = image[path]
            if not place.parent.is_dir():
                continue
            if data is None:
                place.mkdir()
            else:
                place.write_bytes(data)

    def _failure(self, path: Path) -> Exception:  # noqa: ARG002 - the cut has no path
        return PowerCutError()
