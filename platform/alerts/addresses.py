"""Resolves the hosts of webhooks to addresses that may be called.

A name is resolved once for each connection, every address that comes is checked, and the connection is made to one of
them: no answer of a second look-up can lead elsewhere.  Whatever is not public (this machine, private networks, link
local ones with a cloud's metadata, multicast) is refused unless the configuration allows the network by name.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Sequence
from typing import Final

from aiohttp.abc import AbstractResolver, ResolveResult

__all__ = ["GuardedResolver", "RefusedAddressError", "is_allowed"]

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_NAT64: Final = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))


class RefusedAddressError(OSError):
    """The host of a webhook has an address that may not be called."""

    def __init__(self, host: str, address: str) -> None:
        self.host, self.address = host, address
        super().__init__(f"{host} is {address}, which is not public: allow_addresses does not name it")


def is_allowed(address: str, allowed: Sequence[Network]) -> bool:
    """Tell whether an address may be called: it is public, and so is the IPv4 address inside it, or it is allowed.

    An address with an IPv4 address inside is only as public as that one.
    """
    found = ipaddress.ip_address(address.partition("%")[0])
    inner = _inner(found)
    if any(each in network for each in (found, inner) for network in allowed if each.version == network.version):
        return True
    return all(each.is_global and not each.is_multicast for each in (found, inner))


def _inner(address: Address) -> Address:
    """Return the IPv4 address inside an IPv6 one (mapped, 6to4, NAT64), or the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if any(address in network for network in _NAT64):
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or address


class GuardedResolver(AbstractResolver):
    """Resolves names for aiohttp, and refuses a name of which one address is refused."""

    def __init__(self, allowed: Sequence[Network]) -> None:
        self._allowed = tuple(allowed)

    def check_literal(self, host: str) -> None:
        """Check a host that is an address itself: nothing resolves it.

        Raises:
            RefusedAddressError: it may not be called.
        """
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return
        if not is_allowed(host, self._allowed):
            raise RefusedAddressError(host, host)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses of a host.

        Raises:
            RefusedAddressError: one of them may not be called.
            OSError: it has none.
        """
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, family=family)
        results: list[ResolveResult] = []
        for kind, _, protocol, _, place in found:
            address = str(place[0])
            if not is_allowed(address, self._allowed):
                raise RefusedAddressError(host, address)
            results.append(
                ResolveResult(
                    hostname=host, host=address, port=port, family=kind, proto=protocol, flags=socket.AI_NUMERICHOST
                )
            )
        return results

    async def close(self) -> None:
        """Do nothing: there is nothing open."""
