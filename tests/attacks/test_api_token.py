"""A token with anything about it changed: every spelling, every digit, every header, at every method."""

from collections.abc import Iterator

import grpc
import pytest
from alcove.platform.domain.permissions import PERMISSIONS
from alcove.platform.services.auth.local import create_local_token, revoke_local_token
from alcove.platform.testing import Served, ServerWorld
from alcove.platform.testing.raw_http2 import RawConnection, frame, header_block
from alcove.platform.testing.wire import METHODS, Wire, method_path, request_class

UNAUTHENTICATED, DENIED = grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED


def wrong(token: str) -> Iterator[str]:
    """What is nearly a token: each character another one, cut, doubled, with blanks, in other cases."""
    for place in range(len(token)):
        yield token[:place] + ("0" if token[place] != "0" else "1") + token[place + 1 :]
    yield from (
        token[:-1],
        token + "0",
        token.upper(),
        f" {token}",
        f"{token} ",
        token * 2,
        token.replace("_", "-"),
        "",
    )


def test_no_token_but_the_right_one_is_taken(attacked: Served, server_world: ServerWorld) -> None:
    """Whichever character is changed; the right one is, before and after."""
    token = server_world.token("reader")
    request = request_class("ListLayers")(app="x")
    for text in [token, *wrong(token), token]:
        with Wire(attacked.grpc_address) as wire:  # a connection that is refused too often is closed
            status, said, _ = wire.call("ListLayers", request, text)
        assert status is (grpc.StatusCode.OK if text == token else UNAUTHENTICATED), (text, said)


def test_two_tokens_are_none(attacked: Served, server_world: ServerWorld) -> None:
    """Neither the first nor the last counts."""
    token = server_world.token("reader")
    other = (("authorization", f"Bearer {server_world.token('operator')}"),)
    with RawConnection(attacked.grpc_address) as connection:
        block = header_block(method_path(METHODS["ListLayers"]), token, more=other)
        connection.socket.sendall(frame(1, 4, 1, block))
        assert b"grpc-status\x0216" in connection.until_ended(1)


@pytest.mark.parametrize("role", ["reader", "team:text", "operator:text", "operator"])
def test_a_token_may_call_what_its_role_may(attacked: Served, server_world: ServerWorld, role: str) -> None:
    """Every method, with an empty request: refused for the role exactly where the table says so."""
    token = server_world.token(role)
    with Wire(attacked.grpc_address) as wire:
        for name, method in METHODS.items():
            status, said, _ = wire.call(name, request_class(name)(), token)
            may = role.partition(":")[0] in PERMISSIONS[method_path(method)].roles
            assert (status is DENIED and "may not" in said) != may, (name, status, said)


def test_a_revoked_token_is_nobodys_from_its_next_call(attacked: Served, server_world: ServerWorld) -> None:
    """On the connection that it was used on."""
    text, record = create_local_token(server_world.data_dir, "operator")
    request = request_class("ListLayers")(app="x")
    with Wire(attacked.grpc_address) as wire:
        assert wire.call("ListLayers", request, text)[0] is grpc.StatusCode.OK
        revoke_local_token(server_world.data_dir, record.token_id)
        assert wire.call("ListLayers", request, text)[0] is UNAUTHENTICATED
