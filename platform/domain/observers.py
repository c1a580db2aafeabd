"""Says who sees what of a report, by how reports become sums and whether they are attested.  Pure.

docs/privacy.md has the same in more words, with the test of each claim.
"""

from dataclasses import dataclass
from urllib.parse import urlsplit

from alcove.registry.policy import Aggregation, TaskPolicy

__all__ = ["Observer", "TrustMode", "list_observers", "trust_mode_of"]


@dataclass(frozen=True)
class Observer:
    """A party, and what it can and cannot see.

    Attributes:
        party: who.
        sees: what, a sentence.
        cannot: what not, a sentence.
    """

    party: str
    sees: str
    cannot: str


@dataclass(frozen=True)
class TrustMode:
    """How reports become sums.

    Attributes:
        aggregation: the aggregators; None: randomized response.
    """

    aggregation: Aggregation | None

    @property
    def is_attested(self) -> bool:
        """Whether each report needs a token of an enrolled installation."""
        return self.aggregation is not None and self.aggregation.token_issuer is not None

    @property
    def title(self) -> str:
        """The mode in a few words."""
        if self.aggregation is None:
            return "Randomized response, not attested"
        attested = "attested" if self.is_attested else "not attested"
        leader, helper = _hosts(self.aggregation)
        return f"Two aggregators (Prio3), {leader} and {helper}, {attested}"

    @property
    def evidence(self) -> str:
        """What reports can decide, and who can bend them."""
        if self.is_attested:
            return (
                "Each enrolled installation adds one report a window at most, so this evidence may pause a rollout and,"
                " where its plan says so, halt it by itself."
            )
        return (
            "Anybody can send reports of these tasks, so this evidence may hold or pause a rollout, and never halts it"
            " or withdraws a version by itself."
        )

    @property
    def existence(self) -> str:
        """What it says that there is a report."""
        if self.aggregation is None:
            return (
                "That there is a report says that the device takes part, and that the feature was used, or failed, in"
                " its window."
            )
        return (
            "Each window is reported, used or not: that there is a report says that the device takes part, and that"
            " the app ran in the next window."
        )


def trust_mode_of(task: TaskPolicy) -> TrustMode:
    """Return the mode of a task."""
    return TrustMode(task.aggregation)


def list_observers(mode: TrustMode) -> list[Observer]:
    """Return every party with what it sees, from the device on."""
    until = "it has reported" if mode.aggregation is None else "the leader has its report"
    sees = f"Everything: what was typed, the answers, and its true cell, which it keeps until {until}."
    device = Observer("The device", sees, "What other devices report.")
    return [
        device,
        *(_observers_of_server() if mode.aggregation is None else _observers_of_aggregators(mode.aggregation)),
    ]


def _observers_of_server() -> list[Observer]:
    return [
        Observer(
            "The network",
            "That the device sends something to this server, when, and how large it is: the size is the same for all"
            " reports of a task.",
            "The report, over TLS.",
        ),
        Observer(
            "This server's ingress",
            "Address and moment of the connection; of the report its task, its window, and the randomized cell or set"
            " of cells.",
            "The true cell, beyond what ε allows. It writes down neither address nor moment nor report, only sums; to"
            " limit what one address asks, it keeps a digest of it until a minute after its last connection.",
        ),
        Observer(
            "The aggregators",
            "Nothing: there are none in this mode.",
            "Anything.",
        ),
        Observer(
            "The server's operator",
            "How many reports named each cell of a task in each window, from the first report on: there is no minimum"
            " batch. Who watches the ingress at work sees what it sees.",
            "The true cell of any device, beyond ε for each report.",
        ),
        Observer(
            "The product team",
            "The same sums, and estimates with intervals made of them.",
            "A single report.",
        ),
    ]


def _observers_of_aggregators(aggregation: Aggregation) -> list[Observer]:
    leader, helper = _hosts(aggregation)
    together = "Together the two read every cell."
    if aggregation.local_epsilon is not None:
        together = f"Together the two read a cell that the device randomized, up to ε = {aggregation.local_epsilon}."
    token = " and its token, which says nothing of whose it is" if aggregation.token_issuer is not None else ""
    observers = [
        Observer(
            "A relay, where the app names one",
            "The device's address, when it asks which aggregator, and sizes in steps.",
            "The report, whether it was taken, what was measured.",
        ),
        Observer(
            f"The leader, {leader}",
            f"One share of each report, which alone is noise; when it came{token}; the device's address, or the"
            " relay's where the app names one.",
            f"The cell. {together}",
        ),
        Observer(
            f"The helper, {helper}",
            f"The other share{token}; the address of who asks for its keys, or the relay's.",
            f"The cell, and which device it is of. {together}",
        ),
    ]
    if aggregation.token_issuer is not None:
        observers.append(
            Observer(
                f"The issuer of tokens, {urlsplit(aggregation.token_issuer).netloc}",
                "The installation, as its platform names it; in which tasks and windows it takes part; its address"
                " when it asks.",
                "Which report is whose, and anything of a report.",
            )
        )
    least = aggregation.min_batch_size
    return [
        *observers,
        Observer(
            "This server's ingress",
            "Address and moment of a device's sync of files, the same in every arm.",
            "Any report of this mode: it takes none of them.",
        ),
        Observer(
            "The server's operator",
            f"Sums of a window with the noise of both aggregators, from {least} reports on, and how many reports they"
            " are of.",
            f"A report, or a sum of fewer than {least}.",
        ),
        Observer(
            "The product team",
            "The same noised sums, and estimates with intervals made of them.",
            "A single report.",
        ),
    ]


def _hosts(aggregation: Aggregation) -> tuple[str, str]:
    return urlsplit(aggregation.leader_url).netloc, urlsplit(aggregation.helper_url).netloc
