"""Chooses how a task's reports become sums, and says what each way promises.  Pure."""

from urllib.parse import urlsplit

from alcove.platform.domain.errors import AggregatorsMissingError
from alcove.platform.stats import Mechanism
from alcove.registry.policy import Aggregation

__all__ = ["choose_aggregation", "default_epsilon", "mechanism_of", "promise_of"]


def mechanism_of(aggregation: Aggregation | None) -> Mechanism:
    """Return the mechanism of a task that has these aggregators, or none."""
    return Mechanism.RANDOMIZED_RESPONSE if aggregation is None else Mechanism.PRIO3


def choose_aggregation(mechanism: Mechanism | None, aggregators: Aggregation | None) -> Aggregation | None:
    """Return the aggregators of a task, None for randomized response.

    Args:
        mechanism: as asked for; None: Prio3 where the server has aggregators, else randomized response.
        aggregators: the server's.

    Raises:
        AggregatorsMissingError: Prio3 is asked of a server without aggregators.
    """
    if mechanism is Mechanism.PRIO3 and aggregators is None:
        raise AggregatorsMissingError
    return None if mechanism is Mechanism.RANDOMIZED_RESPONSE else aggregators


def default_epsilon(aggregation: Aggregation | None) -> str:
    """Return the privacy loss of a rollout's report that none is named for, decimal text.

    2, all that a device spends in a day, under randomized response: at 1 no app below a hundred million devices would
    find a stage safe.  1 where aggregators add reports up: their noise is small then.
    """
    return "2" if aggregation is None else "1"


def promise_of(epsilon: str, aggregation: Aggregation | None) -> str:
    """Return one sentence that says against whom reports are private, and up to which epsilon."""
    if aggregation is None:
        return f"randomized response: each report hides arm and outcome up to ε = {epsilon}, from this server too"
    leader, helper = (urlsplit(url).netloc for url in (aggregation.leader_url, aggregation.helper_url))
    together = "they could read every report together"
    if aggregation.local_epsilon is not None:
        together = f"together they could read a report up to ε = {aggregation.local_epsilon}"
    return (
        f"two aggregators (Prio3): neither {leader} nor {helper} reads a report, and they release a window's sums with"
        f" ε = {epsilon} from {aggregation.min_batch_size} reports on; {together}"
    )
