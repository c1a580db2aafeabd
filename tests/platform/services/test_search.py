"""Versions are found by every filter, in every order, page by page, on both databases, while things change."""

import base64
import itertools
import json
import random
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from alcove.api.registry.v1 import registry_pb2 as pb
from alcove.platform.client import InvalidRequestError, PlatformClient
from alcove.platform.domain.catalog.search import VersionOrder, VersionQuery, page_token, parse_query
from alcove.platform.domain.catalog_records import AliasMove, ListedVersion, Tag
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.limits import MESSAGE_BYTES, TAGS_MAX
from alcove.platform.domain.records import VersionState
from alcove.platform.server.registry_convert import fitting
from alcove.platform.store import Store
from alcove.platform.store.catalog import add_alias_move, list_versions, set_tag
from alcove.platform.store.search import search_versions
from alcove.platform.store.versions import add_version, save_state, version_of, versions_query
from alcove.platform.testing import ServerWorld
from alcove.registry.canonical import version_key
from alcove.registry.package import create_package
from alcove.registry.testing import FakeVerifier
from sqlalchemy.ext.asyncio import AsyncSession

CARDS = ("learnt from 100% public text", "under_score and BACK\\slash", "Straße in München", "nothing to see")


async def add(session: AsyncSession, feature: str, version: str, card: str, lineage: dict[str, str] | None) -> None:
    """Write a version whose team is the feature's first letter."""
    manifest = json.dumps({"variants": [], "lineage": lineage}).encode()
    record = await add_version(
        session,
        feature=feature,
        version=version,
        team=f"team-{feature[0]}",
        manifest_sha256="0" * 64,
        manifest=manifest,
        published_at_s=1,
        card=card,
    )
    state = list(VersionState)[record.sequence % 5]
    await save_state(session, replace(record, state=state))
    if record.sequence % 2:
        await set_tag(session, record, Tag("quality", f"Level {record.sequence % 3}", "p", 1))
    if record.sequence % 3 == 0:
        await set_tag(session, record, Tag("rare-word", "x", "p", 1))
        await set_tag(session, record, Tag("place", "GÖTEBORG", "p", 1))
    if record.sequence % 4 == 0:
        move = AliasMove(0, feature, "production", None, version, "p", 1, "r", None)
        await add_alias_move(session, move)


@pytest.fixture
async def full(store: Store) -> Store:
    """A store with 60 versions of 3 features, numbers in no order."""
    numbers = [f"{major}.{minor}.0" for major, minor in itertools.product((1, 2, 9, 10), range(5))]
    async with store.write() as session:
        for place, feature in enumerate(("alpha", "beta", "amber")):
            shuffled = random.Random(place).sample(numbers, len(numbers))
            for index, version in enumerate(shuffled):
                lineage = {"training_run": f"run-{index}", "code_revision": "", "data": "", "parent": ""}
                await add(session, feature, version, CARDS[index % 4], lineage if index % 2 else None)
    return store


async def everything(store: Store) -> list[tuple[ListedVersion, str]]:
    """All versions in order of publication, each with the text that a search looks through."""
    async with store.read() as session:
        rows = (await session.execute(versions_query())).all()
        records = sorted((version_of(*row) for row in rows), key=lambda record: record.sequence)
        found = await list_versions(session, records)
    texts = []
    for item in found:
        index = (item.record.sequence - 1) % 20
        card = CARDS[index % 4]
        run = f"run-{index}" if index % 2 else ""
        tags = [word for tag in item.tags for word in (tag.key, tag.value)]
        words = (item.record.feature, item.record.version, item.record.team, run, card, *tags)
        texts.append("\n".join(words).lower())
    return list(zip(found, texts, strict=True))


def fits(query: VersionQuery, item: ListedVersion, text: str) -> bool:
    """The filters, written down a second time."""
    tags = {tag.key: tag.value for tag in item.tags}
    record = item.record
    return (
        query.feature in (None, record.feature)
        and query.team in (None, record.team)
        and (not query.states or record.state in query.states)
        and (query.alias is None or query.alias in item.aliases)
        and all(key in tags and value in (None, tags[key]) for key, value in query.tags)
        and all(word in text for word in query.words)
    )


def key_of(order: VersionOrder) -> Callable[[ListedVersion], tuple[object, ...]]:
    """The orders, written down a second time."""
    if order is VersionOrder.OLDEST:
        return lambda item: (item.record.sequence,)
    if order is VersionOrder.NEWEST:
        return lambda item: (-item.record.sequence,)
    return lambda item: (item.record.feature, *(-part for part in version_key(item.record.version)))


async def pages(store: Store, query: VersionQuery, **fields: object) -> list[tuple[str, str]]:
    """Every version that a search gives, page by page, over tokens as a caller sends them."""
    found, token = [], ""
    while True:
        asked = parse_query(**fields, order=query.order, page_size=query.size, page_token=token)  # type: ignore[arg-type]
        async with store.read() as session:
            records, has_more = await search_versions(session, asked)
        found += [(record.feature, record.version) for record in records]
        if not has_more:
            return found
        assert len(records) == query.size
        token = page_token(asked, records[-1])


FILTERS: list[dict[str, object]] = [
    {},
    {"feature": "alpha"},
    {"feature": "nothing"},
    {"team": "team-a"},
    {"states": [VersionState.RELEASED]},
    {"states": [VersionState.REVOKED, VersionState.REGISTERED, VersionState.REVOKED]},
    {"alias": "production"},
    {"tags": [("quality", "")]},
    {"tags": [("quality", "Level 1")]},
    {"tags": [("quality", "level 1")]},
    {"tags": [("quality", ""), ("rare-word", "x")]},
    {"text": "PUBLIC"},
    {"text": "100%"},
    {"text": "%"},
    {"text": "under_score"},
    {"text": "back\\slash"},
    {"text": "_"},
    {"text": "münchen"},
    {"text": "run-1"},
    {"text": "alpha 10."},
    {"text": "rare-word level"},
    {"text": "Göteborg"},
    {"text": "' OR 1=1 --"},
    {"text": "nowhere"},
    {"feature": "amber", "states": [VersionState.RELEASED], "text": "text"},
]


async def test_every_filter_and_order_gives_what_fits_page_by_page(full: Store) -> None:
    """Whatever the size of a page: each version that fits, once, in order; % and _ stand for themselves."""
    versions = await everything(full)
    assert len(versions) == 60
    hits = []
    for fields, order, size in itertools.product(FILTERS, VersionOrder, (7, 1000)):
        query = parse_query(**fields, order=order, page_size=size)  # type: ignore[arg-type]
        right = sorted((item for item, text in versions if fits(query, item, text)), key=key_of(order))
        wanted = [(item.record.feature, item.record.version) for item in right]
        assert await pages(full, query, **fields) == wanted, (fields, order, size)
        hits.append(len(wanted))
    assert hits.count(0) == 6 * 4  # what shall find nothing finds nothing, and all others find something
    assert max(hits) == 60


@pytest.mark.parametrize("order", list(VersionOrder))
async def test_pages_hold_while_versions_are_published_and_moved(full: Store, order: VersionOrder) -> None:
    """What was there all the time is given exactly once, though every page is followed by a change."""
    wanted = {(item.record.feature, item.record.version) for item, _ in await everything(full)}
    seen: list[tuple[str, str]] = []
    token = ""
    for number in itertools.count():
        query = parse_query(order=order, page_size=7, page_token=token)
        async with full.read() as session:
            records, has_more = await search_versions(session, query)
        seen += [(record.feature, record.version) for record in records]
        if not has_more:
            break
        token = page_token(query, records[-1])
        async with full.write() as session:
            await add(session, "alpha", f"5.{number}.0", "new", None)
            await save_state(session, replace(records[0], state=VersionState.REVOKED))
    assert len(seen) == len(set(seen))
    assert wanted <= set(seen)


BAD_TOKENS = ["x", "-1", "9" * 30, "AAAA", "é", "\0", "=" * 10, "x" * 600]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        *(({"page_token": token}, "page_token") for token in BAD_TOKENS),
        ({"page_token": base64.urlsafe_b64encode(b"[" * 300).decode()}, "page_token"),
        ({"page_token": base64.urlsafe_b64encode(b'["0", "", 1]').decode()}, "page_token"),
        ({"page_size": 1001}, "page_size"),
        ({"feature": "Upper"}, "feature"),
        ({"team": "../x"}, "team"),
        ({"states": [VersionState.RELEASED] * 6}, "states"),
        ({"alias": "1.0.0"}, "alias"),
        ({"tags": [("K", "")]}, "tags.key"),
        ({"tags": [("k", "\0")]}, "tags.value"),
        ({"tags": [("k", "")] * 9}, "tags"),
        ({"text": "w " * 9}, "text"),
        ({"text": "x" * 201}, "text"),
        ({"text": "a\0b"}, "text"),
    ],
)
def test_a_malformed_search_names_its_field(fields: dict[str, object], field: str) -> None:
    """Every field of a search has its bound."""
    with pytest.raises(InvalidFieldError) as refusal:
        parse_query(**fields)  # type: ignore[arg-type]
    assert refusal.value.field == field


async def test_a_token_of_another_search_is_refused(full: Store) -> None:
    """With other filters or another order it would give nonsense; another size of the page is fine."""
    first = parse_query(feature="alpha", page_size=3)
    async with full.read() as session:
        records, _ = await search_versions(session, first)
    token = page_token(first, records[-1])
    assert parse_query(feature="alpha", page_size=9, page_token=token).after == ("", records[-1].sequence)
    for fields in ({}, {"feature": "beta"}, {"feature": "alpha", "order": VersionOrder.NEWEST}, {"feature": "alpha", "text": "x"}):  # fmt: skip  # noqa: E501
        with pytest.raises(InvalidFieldError, match="page_token"):
            parse_query(**fields, page_token=token)  # type: ignore[arg-type]


def test_versions_are_found_over_the_wire(
    world: ServerWorld, team: PlatformClient, operator: PlatformClient, feature: str
) -> None:
    """By state, alias, tag, words of the card and of the lineage; the newest first; and no more than asked for."""
    for version in ("1.0.0", "1.10.0", "1.9.0"):
        world.publish(team, feature, version, is_released=version == "1.9.0")
    team.validate_version(feature, "1.10.0")
    team.set_alias(feature, "candidate", "1.9.0", reason="x")
    team.set_tag(feature, "1.0.0", "suite", "passed")

    def find(**filters: object) -> list[str]:
        return [version.version for version in operator.versions(feature, **filters)]  # type: ignore[arg-type]

    assert find() == ["1.0.0", "1.10.0", "1.9.0"]
    assert find(order="newest") == ["1.9.0", "1.10.0", "1.0.0"]
    assert find(order="highest") == ["1.10.0", "1.9.0", "1.0.0"]
    assert find(order="highest", limit=1) == ["1.10.0"]
    assert find(states=["validated"]) == ["1.10.0"]
    assert find(alias="candidate") == ["1.9.0"]
    assert find(tags={"suite": ""}) == find(tags={"suite": "passed"}) == ["1.0.0"]
    assert find(tags={"suite": "failed"}) == []
    assert find(text=f"{feature} 1.9") == ["1.9.0"]  # the card says so
    assert find(team="speech") == []


def test_a_page_that_would_be_too_large_ends_earlier() -> None:
    """Whatever fits into the bytes, one version at least; a page of the largest ones is a message that arrives."""
    messages = [pb.Version(feature="f" * 100) for _ in range(5)]
    one = messages[0].ByteSize()
    assert [len(fitting(messages, most)) for most in (0, 1, one, 2 * one, 5 * one - 1, 5 * one)] == [1, 1, 1, 2, 4, 5]
    assert fitting([], 0) == []
    tags = [pb.Tag(key="k" * 64, value="x" * 1024, set_by="s" * 60, set_at_s=2**40) for _ in range(TAGS_MAX)]
    large = pb.Version(feature="f" * 64, tags=tags, lineage=pb.Lineage(data="x" * 8000))
    page = fitting([large] * 1000)
    assert 1 < len(page) < 1000
    assert pb.ListVersionsResponse(versions=page).ByteSize() < MESSAGE_BYTES


@pytest.mark.thorough
async def test_ten_thousand_versions_are_searched(store: Store) -> None:
    """A filter over 10,000 versions gives the right page; -s shows how long that takes."""
    from alcove.platform.store.catalog_tables import VersionFactsRow
    from alcove.platform.store.tables import FeatureRow, VersionRow

    async with store.write() as session:
        session.add(FeatureRow(name="many", team="t"))
        await session.flush()
        manifest = b'{"variants":[]}'
        session.add_all(
            VersionRow(
                sequence=n,
                feature="many",
                version=f"1.0.{n}",
                manifest_sha256="0",
                manifest=manifest,
                published_at_s=1,
            )
            for n in range(1, 10_001)
        )
        await session.flush()
        session.add_all(
            VersionFactsRow(
                version_sequence=n, version_key=n, search_text=f"many 1.0.{n} word{n % 100}", state="registered"
            )
            for n in range(1, 10_001)
        )
    query = parse_query(text="word7", order=VersionOrder.HIGHEST, page_size=3)
    began_s = time.perf_counter()
    async with store.read() as session:
        records, has_more = await search_versions(session, query)
    print(f"\n10,000 versions searched in {1000 * (time.perf_counter() - began_s):.1f} ms")  # noqa: T201
    assert ([record.version for record in records], has_more) == (["1.0.9979", "1.0.9978", "1.0.9977"], True)


def test_lineage_is_signed_listed_and_searched(
    world: ServerWorld, team: PlatformClient, operator: PlatformClient, feature: str
) -> None:
    """What the team says at the push comes back, is part of the manifest, and cannot be changed afterwards."""
    from alcove.registry.manifest import Lineage, Manifest

    world.publish(team, feature)
    lineage = Lineage(training_run="run-77", code_revision="a" * 40, data="own text, 2026-03", parent="1.0.0")

    def publish(version: str, lineage: Lineage) -> None:
        package = create_package(
            feature=feature,
            team="text",
            version=version,
            programs={"f32": f"program {feature} {version}".encode()},
            card="# card",
            lineage=lineage,
            verifier=FakeVerifier(),
        )
        for data in package.blobs().values():
            team.upload_blob(data)
        team.publish_version(world.sign(package), package.manifest.to_bytes())

    with pytest.raises(InvalidRequestError, match=r"manifest\.lineage\.parent: expected a published version of"):
        publish("2.0.0", Lineage(parent="0.9.0"))
    publish("2.0.0", lineage)
    version, manifest = operator.version(feature, "2.0.0")
    assert version.lineage is not None
    assert version.lineage.model_dump() == lineage.model_dump()
    assert Manifest.from_bytes(manifest).lineage == lineage
    assert operator.version(feature, "1.0.0")[0].lineage is None
    for words in ("run-77", "2026-03 own", "aaaaaaaa"):
        assert [item.version for item in operator.versions(feature, text=words)] == ["2.0.0"]
