"""Provides the stand-in for clocks that a test moves by hand."""


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
