"""Names the pairs of aggregators that an app trusts; a device reports through no other, whoever signed the policy."""

from dataclasses import dataclass

from alcove.sdk.errors import InsecureServerError
from alcove.sdk.transport import check_server

__all__ = ["AggregatorPair"]


@dataclass(frozen=True, slots=True)
class AggregatorPair:
    """Two aggregators of which the app trusts that they do not conspire; the seats are not interchangeable.

    Attributes:
        leader_url: address of the one that devices send their reports to, as the policy writes it: lower case, without
            the scheme's own port, no slash at its end.
        helper_url: address of the other, likewise.

    Raises:
        InsecureServerError: an address is not https (http only for loopback), or is written otherwise.
    """

    leader_url: str
    helper_url: str

    def __post_init__(self) -> None:
        for url in (self.leader_url, self.helper_url):
            # Policies write an address in one way only; another spelling would never be found in one.
            scheme, _, authority = url.partition("://")
            authority = authority.partition("/")[0]
            own_port = ":443" if scheme == "https" else ":80"
            if check_server(url) != url or authority != authority.lower() or authority.endswith(own_port):
                problem = "an aggregator's address is lower case, without the scheme's own port and a slash at its end"
                raise InsecureServerError(server=url, problem=problem)
