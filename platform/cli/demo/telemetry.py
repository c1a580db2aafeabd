"""Lets the fleet use the feature and all devices report, by two aggregators or by randomized response."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from alcove.platform.cli.demo.actors import load_sentences
from alcove.platform.cli.demo.environment import APP
from alcove.platform.cli.demo.fleet import Measurements, measure_fleet, read_installed, send_randomized
from alcove.platform.cli.demo.processes import DemoError
from alcove.sdk import Client

if TYPE_CHECKING:
    from alcove.platform.cli.demo.display import Display
    from alcove.platform.cli.demo.environment import Devices, Places
    from alcove.platform.cli.demo.private_batch import PrivateBatches
    from alcove.platform.cli.demo.result import BatchOutcome
    from alcove.platform.cli.demo.settings import DemoSettings
    from alcove.runtime.clock import Clock


@dataclass(frozen=True)
class Reports:
    """Reports of one window that the server has.

    Attributes:
        fleet: of the fleet's devices.
        devices: of the devices in processes.
        batch: their way through two aggregators; None: there are none, or too few reports for a release.
    """

    fleet: int
    devices: int
    batch: BatchOutcome | None = None

    @property
    def total(self) -> int:
        """How many there are."""
        return self.fleet + self.devices


class Telemetry:
    """The fleet, and the way of all reports.

    Args:
        settings: of the run.
        places: folders.
        http: address of the server.
        clock: of the devices.
        private: the way through two aggregators; None: reports are randomized on the devices.
        display: shows what is going on.
    """

    def __init__(
        self,
        settings: DemoSettings,
        places: Places,
        http: str,
        *,
        clock: Clock,
        private: PrivateBatches | None,
        display: Display,
    ) -> None:
        self._settings = settings
        self._places = places
        self._http = http
        self._clock = clock
        self._private = private
        self._display = display

    def run(self, devices: Devices, *, has_troubles: bool = False, may_close: bool = False) -> Reports:
        """Let the fleet's devices use the feature once, and all devices report.

        Args:
            devices: in processes.
            has_troubles: kill the leader in the middle, and forge reports.
            may_close: the collection of randomized reports may end meanwhile.

        Raises:
            DemoError: a report was refused, or lost.
        """
        measured = self._measure()

        def ask_devices() -> int:
            return sum(int(answer["sent"]) for answer in devices.ask("report"))

        with self._display.progress("the fleet reports", len(measured.cells)) as advance:
            if self._private is None:
                sent = ask_devices()
                fleet = send_randomized(measured, self._http, advance, may_close=may_close)
                return Reports(fleet, sent)
            batch = self._private.send(measured, ask_devices, advance, has_troubles=has_troubles)
        if batch is None:
            return Reports(0, 0)
        return Reports(len(measured.cells), batch.released - len(measured.cells), batch)

    def _measure(self) -> Measurements:
        """Sync once for the fleet, by a real client, and let all of its devices use the feature."""
        count = self._settings.fleet
        with Client(APP, self._places.fleet, self._http, self._places.root, clock=self._clock) as client:
            error = client.sync().error
        if error is not None:
            raise DemoError(f"expected the fleet's sync without error; saw {error}")
        policy, models = read_installed(self._places, self._http)
        with self._display.progress("the fleet uses the feature", count) as advance:
            return measure_fleet(
                count,
                policy=policy,
                models=models,
                sentences=load_sentences(),
                clock=self._clock,
                seed=self._settings.seed,
                progress=advance,
            )
