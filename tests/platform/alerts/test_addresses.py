"""Webhooks cannot be pointed into the operator's own networks."""

import asyncio
import ipaddress
import socket
from typing import Any

import pytest
from alcove.platform.alerts.addresses import GuardedResolver, RefusedAddressError, is_allowed

INSIDE = [
    "127.0.0.1",
    "0.0.0.0",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "192.0.2.1",
    "224.0.0.1",
    "255.255.255.255",
    "::1",
    "::",
    "fe80::1",
    "fe80::1%eth0",
    "fc00::1",
    "fd00:ec2::254",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "2002:7f00:1::",
    "64:ff9b::10.0.0.1",
    "64:ff9b::a9fe:a9fe",
]
PUBLIC = ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "64:ff9b::1.1.1.1"]


@pytest.mark.parametrize("address", INSIDE)
def test_an_address_inside_is_refused(address: str) -> None:
    """Loopback, private, link-local, shared, multicast, and IPv6 addresses that hold one of them."""
    assert not is_allowed(address, ())


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_allowed(address: str) -> None:
    """The rest of the world may be called."""
    assert is_allowed(address, ())


def test_a_network_that_is_named_is_allowed_and_no_other() -> None:
    """An allowance holds for its network alone."""
    allowed = [ipaddress.ip_network("10.1.0.0/16")]
    assert is_allowed("10.1.2.3", allowed)
    assert is_allowed("::ffff:10.1.2.3", allowed)
    assert not is_allowed("10.2.2.3", allowed)
    assert not is_allowed("127.0.0.1", allowed)


async def test_a_name_with_one_address_inside_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that answers a public and a private address reaches neither."""
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", _answers("1.1.1.1", "10.0.0.1"))
    with pytest.raises(RefusedAddressError, match=r"hooks.example is 10.0.0.1, which is not public"):
        await GuardedResolver(()).resolve("hooks.example", 443)


async def test_the_connection_is_made_to_the_address_that_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the resolver gives is an address: nothing asks for the name again."""
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", _answers("1.1.1.1"))
    (found,) = await GuardedResolver(()).resolve("hooks.example", 443)
    assert (found["host"], found["hostname"], found["flags"]) == ("1.1.1.1", "hooks.example", socket.AI_NUMERICHOST)


def _answers(*addresses: str) -> Any:
    async def resolve(_host: str, port: int, **_more: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in addresses]

    return resolve
