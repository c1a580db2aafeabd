"""Decides which tasks a party takes part in, whoever asks: devices and both aggregators apply rules of their own.

The rules look at what the task costs a device. That a task comes from who may measure is checked elsewhere.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from alcove.privacy.dap.task import DapTask
from alcove.privacy.errors import DapTaskError, ParameterError
from alcove.privacy.limits import EPSILON_PER_DAY, MAX_CELLS

MIN_BATCH_SIZE: Final = 100
"""Fewest reports of a batch that any party here accepts: one device is hidden among a hundred, apart from the noise."""

MIN_WINDOW_S: Final = 3600
"""Shortest window in seconds that any party here accepts: a report's time is not finer."""


@dataclass(frozen=True)
class TaskRules:
    """Bounds on tasks; the tightest bounds of the product are the defaults' floor.

    Attributes:
        min_batch_size: fewest reports of a batch, at least `MIN_BATCH_SIZE`.
        min_window_s: shortest window in seconds, at least `MIN_WINDOW_S`.
        max_epsilon: largest privacy loss of one window.
        max_elements: longest sum.

    Raises:
        ParameterError: a rule is weaker than the product allows.
    """

    min_batch_size: int = MIN_BATCH_SIZE
    min_window_s: int = MIN_WINDOW_S
    max_epsilon: Fraction = EPSILON_PER_DAY
    max_elements: int = MAX_CELLS

    def __post_init__(self) -> None:
        for name, floor in (("min_batch_size", MIN_BATCH_SIZE), ("min_window_s", MIN_WINDOW_S)):
            if getattr(self, name) < floor:
                raise ParameterError(name=name, bound=f"at least {floor}", value=getattr(self, name))

    def check(self, task: DapTask) -> None:
        """Return if a party with these rules takes part in the task.

        Raises:
            DapTaskError: it does not; the error names the first rule that is broken.
        """
        configuration = task.configuration
        if configuration.min_batch_size < self.min_batch_size:
            self._refuse("min_batch_size", f"at least {self.min_batch_size}", configuration.min_batch_size)
        if configuration.time_precision_s < self.min_window_s:
            self._refuse("time_precision", f"at least {self.min_window_s} s", configuration.time_precision_s)
        if task.info.epsilon > self.max_epsilon:
            self._refuse("epsilon", f"at most {self.max_epsilon}", str(task.info.epsilon))
        if task.circuit.output_length > self.max_elements:
            self._refuse("elements of a sum", f"at most {self.max_elements}", task.circuit.output_length)
        if configuration.leader_url == configuration.helper_url:
            self._refuse("helper_url", "another aggregator's than leader_url", configuration.helper_url)

    @staticmethod
    def _refuse(what: str, bound: str, value: object) -> None:
        raise DapTaskError(what=what, bound=bound, value=value)
