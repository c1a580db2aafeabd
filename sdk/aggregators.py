"""Names the pairs of aggregators that an app trusts; a device reports through no other, whoever signed the policy."""

from dataclasses import dataclass

from alcove.sdk.errors import InsecureServerError
from alcove.sdk.transport import check_server

__all__ = ["AggregatorPair", "ObliviousRelay"]


@dataclass(frozen=True, slots=True)
class ObliviousRelay:
    """A relay of Oblivious HTTP (RFC 9458) that hides the device's address from one aggregator.

    The relay sees addresses and sizes, the aggregator what is in a request; the app trusts that the two do not work
    together.

    Attributes:
        url: of the relay's resource for this aggregator: https, no slash at its end.
        key_config: the public key of the aggregator's gateway, one configuration of RFC 9458, section 3.1
            (`alcove aggregator gateway-key` prints it); None: it is fetched through the relay, which must give all
            devices the same, for a key of its own would tell a device from the others.

    Raises:
        InsecureServerError: the address is not https (http only for loopback).
    """

    url: str
    key_config: bytes | None = None

    def __post_init__(self) -> None:
        if check_server(self.url) != self.url:
            raise InsecureServerError(server=self.url, problem="a relay's address has no slash at its end")


@dataclass(frozen=True, slots=True)
class AggregatorPair:
    """Two aggregators of which the app trusts that they do not conspire; the seats are not interchangeable.

    Attributes:
        leader_url: address of the one that devices send their reports to, as the policy writes it: lower case, without
            the scheme's own port, no slash at its end.
        helper_url: address of the other, likewise.
        leader_relay: the way to the leader; None: devices connect to it themselves.
        helper_relay: the way to the helper, likewise.

    Raises:
        InsecureServerError: an address is not https (http only for loopback), or is written otherwise.
    """

    leader_url: str
    helper_url: str
    leader_relay: ObliviousRelay | None = None
    helper_relay: ObliviousRelay | None = None

    def __post_init__(self) -> None:
        for url in (self.leader_url, self.helper_url):
            # Policies write an address in one way only; another spelling would never be found in one.
            scheme, _, authority = url.partition("://")
            authority = authority.partition("/")[0]
            own_port = ":443" if scheme == "https" else ":80"
            if check_server(url) != url or authority != authority.lower() or authority.endswith(own_port):
                problem = "an aggregator's address is lower case, without the scheme's own port and a slash at its end"
                raise InsecureServerError(server=url, problem=problem)
