"""Names the pairs of aggregators that an app trusts; a device reports through no other, whoever signed the policy."""

from dataclasses import dataclass

from alcove.sdk.errors import InsecureServerError
from alcove.sdk.transport import check_server

__all__ = ["AggregatorPair"]


@dataclass(frozen=True, slots=True)
class AggregatorPair:
    """Two aggregators of which the app trusts that they do not conspire; the seats are not interchangeable.

    Attributes:
        leader_url: address of the one that devices send their reports to, as the policy writes it: lower case, no slash
            at its end.
        helper_url: address of the other, likewise.

    Raises:
        InsecureServerError: an address is not https (http only for loopback), or is written otherwise.
    """

    leader_url: str
    helper_url: str

    def __post_init__(self) -> None:
        for url in (self.leader_url, self.helper_url):
            if check_server(url) != url:
                raise InsecureServerError(server=url, problem="an aggregator's address has no slash at its end")
