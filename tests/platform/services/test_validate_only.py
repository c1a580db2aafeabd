"""A mutation that is only tried: checked as a real one is, and nothing of it is left."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from alcove.api.rollout.v1 import rollout_pb2 as pb
from alcove.platform.domain.errors import InvalidFieldError, RequestIdReusedError, StaleEtagError
from alcove.platform.domain.field_validation import validate_etag
from alcove.platform.domain.principal import Principal, Role, set_principal
from alcove.platform.domain.records import Page
from alcove.platform.services.mutations import Mutations
from alcove.platform.services.policy import PolicyPublisher
from alcove.platform.services.publishing import RepositoryLock
from alcove.platform.store import Store
from alcove.platform.store.audit import list_audit
from alcove.platform.store.publications import Publication, add_publication, list_unpublished
from alcove.platform.store.tokens import TokenRecord, add_token, find_token
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.platform.testing import ServerWorld
from alcove.registry.repository import Repository
from alcove.runtime.clock import SYSTEM_CLOCK
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

TOKEN = TokenRecord("ab" * 8, "0" * 64, "reader", 0, 1, None)


def request_of(**values: object) -> Any:
    """A request with the fields that every mutation has, and `validate_only`."""
    name = "alcove.tests.TryRequest"
    pool = descriptor_pool.DescriptorPool()
    file = descriptor_pb2.FileDescriptorProto(name="try.proto", package="alcove.tests", syntax="proto3")
    message = file.message_type.add(name="TryRequest")
    optional, text, flag = (descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL, 9, 8)
    for number, (label, kind) in enumerate((("request_id", text), ("app", text), ("validate_only", flag)), 1):
        message.field.add(name=label, number=number, label=optional, type=kind)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))(**values)


@pytest.fixture
async def mutations(store: Store, tmp_path: Path) -> Mutations:
    """Mutations on a fresh database, without a tree's keys: nothing can be published."""
    world = ServerWorld(tmp_path / "world", teams={"text": ("text_00",)})
    tree = Repository(world.data_dir / "tree")
    set_principal(Principal("1" * 16, Role("operator")))
    publisher = PolicyPublisher(store, tree, RepositoryLock(store))
    return Mutations(store, publisher, tree, SYSTEM_CLOCK)


async def work(uow: UnitOfWork) -> pb.PauseRolloutResponse:
    """Write a row, an audit entry and a decided document."""
    await add_token(uow.session, TOKEN)
    await uow.audit("try", "it")
    await add_publication(uow.session, Publication("policy", "app", 1, b"{}", is_published=False))
    uow.decided.add(("policy", "app"))
    return pb.PauseRolloutResponse(rollout=pb.Rollout(rollout_id="ro-1"))


async def count_rows(store: Store) -> tuple[bool, int, int]:
    """Whether the row is there, how many audit entries, how many documents that wait."""
    async with store.read() as session:
        token = await find_token(session, TOKEN.token_id)
        return token is not None, len(await list_audit(session, Page(0, 100))), len(await list_unpublished(session))


async def test_a_tried_mutation_answers_as_it_would_and_leaves_nothing(mutations: Mutations, store: Store) -> None:
    """Row, audit entry, document and request id are all gone."""
    request = request_of(request_id="tried-0001", app="a", validate_only=True)
    for _ in range(2):
        answer = await mutations.run(request, pb.PauseRolloutResponse, work)
        assert answer.rollout.rollout_id == "ro-1"
        assert await count_rows(store) == (False, 0, 0)
    assert await mutations.find_response(request, pb.PauseRolloutResponse) is None


async def test_what_was_tried_can_be_done_under_the_same_id(mutations: Mutations, store: Store) -> None:
    """The real mutation is new; trying it again afterwards gives its stored answer; other content is refused."""
    tried = request_of(request_id="tried-0002", app="a", validate_only=True)
    await mutations.run(tried, pb.PauseRolloutResponse, work)

    async def real(uow: UnitOfWork) -> pb.PauseRolloutResponse:
        await uow.audit("do", "it")
        return pb.PauseRolloutResponse(rollout=pb.Rollout(rollout_id="ro-2"))

    await mutations.run(request_of(request_id="tried-0002", app="a"), pb.PauseRolloutResponse, real)
    assert await count_rows(store) == (False, 1, 0)
    assert (await mutations.run(tried, pb.PauseRolloutResponse, work)).rollout.rollout_id == "ro-2"
    other = request_of(request_id="tried-0002", app="b", validate_only=True)
    with pytest.raises(RequestIdReusedError):
        await mutations.run(other, pb.PauseRolloutResponse, work)
    assert await count_rows(store) == (False, 1, 0)


async def test_a_tried_mutation_is_refused_as_a_real_one(mutations: Mutations, store: Store) -> None:
    """What the work raises comes out, and what it did before is gone."""

    async def refuse(uow: UnitOfWork) -> pb.PauseRolloutResponse:
        await work(uow)
        validate_etag("1", 2, kind="rollout", name="ro-1")
        raise AssertionError

    for ending, kind in ((refuse, StaleEtagError), (_break_off, RuntimeError)):
        with pytest.raises(kind):
            await _run(mutations, ending)
        assert await count_rows(store) == (False, 0, 0)
    with pytest.raises(InvalidFieldError, match="request_id"):
        await mutations.run(request_of(request_id="", validate_only=True), pb.PauseRolloutResponse, work)


async def _break_off(uow: UnitOfWork) -> pb.PauseRolloutResponse:
    await work(uow)
    raise RuntimeError


async def _run(mutations: Mutations, ending: Callable[[UnitOfWork], Awaitable[pb.PauseRolloutResponse]]) -> None:
    await mutations.run(request_of(request_id="tried-0003", validate_only=True), pb.PauseRolloutResponse, ending)


def test_an_etag_of_now_passes_and_none_asks_for_nothing() -> None:
    """The two ways to be let through."""
    validate_etag("", 7, kind="rollout", name="ro-1")
    validate_etag("7", 7, kind="rollout", name="ro-1")


@pytest.mark.parametrize("etag", ["6", "8", "999999999999999999"])
def test_an_etag_of_another_time_is_stale_and_reported_with_the_present_one(etag: str) -> None:
    """The error names the thing, its etag and what was sent."""
    with pytest.raises(StaleEtagError, match=f"rollout ro-1 .* '7', got '{etag}'"):
        validate_etag(etag, 7, kind="rollout", name="ro-1")


@pytest.mark.parametrize("etag", ["0", "07", "-7", "+7", "7 ", "7.0", "x", "٧", "7" * 19, '"7"'])
def test_what_is_no_etag_of_ours_is_a_malformed_field(etag: str) -> None:
    """It is the field's fault, not another writer's."""
    with pytest.raises(InvalidFieldError, match="etag"):
        validate_etag(etag, 7, kind="rollout", name="ro-1")
