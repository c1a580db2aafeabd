"""The nginx configuration in docs/deploy serves devices as alcove's own server does, and nothing else."""

import contextlib
import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from alcove.platform.cli.demo.reporting import HEADERS
from alcove.platform.testing import Served, ServerWorld, nginx
from alcove.platform.testing.nginx import NGINX_CONFIGURATION, running_nginx
from alcove.registry.client import RepositoryClient
from alcove.sdk.egress import Egress, TufFetcher

FEATURE = "text_00"

pytestmark = pytest.mark.needs("nginx")


@dataclass(frozen=True)
class Answer:
    """Of an HTTP server."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


def ask(url: str, **headers: str) -> Answer:
    """Return the answer to a GET, whatever its status."""
    request = urllib.request.Request(url, headers={name.replace("_", "-"): value for name, value in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return Answer(answer.status, answer.read(), {k.lower(): v for k, v in answer.headers.items()})
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.read(), {k.lower(): v for k, v in error.headers.items()})


@dataclass(frozen=True)
class Front:
    """nginx in front of a server."""

    url: str
    world: ServerWorld
    served: Served


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    """A server process that published a version, and nginx that serves its tree."""
    folder = tmp_path_factory.mktemp("nginx")
    world = ServerWorld(folder / "world", teams={"text": (FEATURE,)})
    served = world.start()
    with contextlib.ExitStack() as stack:
        stack.callback(served.stop)
        with world.client(served, "team:text") as client:
            world.publish(client, FEATURE)
        upstream = served.http_url.removeprefix("http://")
        yield Front(stack.enter_context(running_nginx(folder, world.data_dir / "tree", upstream)), world, served)


def test_blobs_come_from_a_bucket_with_the_block_that_the_document_shows(
    front: Front, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/deploy/stores.md, in the place of the block for blobs: nginx has no file of its own and asks the bucket."""
    page = (repository / "docs/deploy/stores.md").read_text(encoding="utf-8")
    block = page.partition("```nginx\n")[2].partition("```")[0]
    bucket = "https://models.s3.eu-central-1.amazonaws.com/alcove/"
    assert bucket in block
    block = block.replace(bucket, f"{front.served.http_url}/blobs/")
    text = NGINX_CONFIGURATION.read_text(encoding="utf-8")
    text, count = re.subn(r' +location ~ "\^/blobs/.*?\n {8}\}\n', lambda _: block, text, flags=re.DOTALL)
    assert count == 1
    (tmp_path / "bucket.conf").write_text(text, encoding="utf-8")
    monkeypatch.setattr(nginx, "NGINX_CONFIGURATION", tmp_path / "bucket.conf")
    (tmp_path / "empty").mkdir()
    blobs = [path for path in (front.world.data_dir / "tree/blobs").iterdir() if not path.name.startswith(".")]
    assert blobs
    with running_nginx(tmp_path, tmp_path / "empty", front.served.http_url.removeprefix("http://")) as url:
        for blob in blobs:
            answer = ask(f"{url}/blobs/{blob.name}")
            assert (answer.status, answer.body) == (200, blob.read_bytes())


def every_file(front: Front) -> list[str]:
    """Return the paths of all files of the tree that devices may read."""
    tree = front.world.data_dir / "tree"
    found = [path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_file()]
    return sorted(path for path in found if not path.split("/")[-1].startswith("."))


def test_every_file_of_the_tree_comes_with_its_lifetime_and_validator(front: Front) -> None:
    """Immutable but for the timestamp; asked again with the validator, nothing is sent."""
    paths = every_file(front)
    assert {path.partition("/")[0] for path in paths} >= {"metadata", "targets", "blobs"}
    for path in paths:
        answer = ask(f"{front.url}/{path}")
        assert (answer.status, answer.body) == (200, (front.world.data_dir / "tree" / path).read_bytes()), path
        lifetime = "no-cache" if path.endswith("/timestamp.json") else "public, max-age=31536000, immutable"
        assert answer.headers["cache-control"] == lifetime
        assert answer.headers["x-content-type-options"] == "nosniff"
        again = ask(f"{front.url}/{path}", If_None_Match=answer.headers["etag"])
        assert (again.status, again.body) == (304, b"")


def test_rest_of_a_blob_is_sent_alone(front: Front) -> None:
    """What a device asks for after a cut; beyond the end there is nothing."""
    path = next(path for path in every_file(front) if path.startswith("blobs/"))
    whole = ask(f"{front.url}/{path}").body
    part = ask(f"{front.url}/{path}", Range="bytes=5-")
    assert (part.status, part.body) == (206, whole[5:])
    assert part.headers["content-range"] == f"bytes 5-{len(whole) - 1}/{len(whole)}"
    assert ask(f"{front.url}/{path}", Range=f"bytes={len(whole)}-").status == 416


def test_metadata_is_packed_for_those_who_accept_it(front: Front) -> None:
    """About a third of the bytes; without the header, the file as it is."""
    metadata = [path for path in every_file(front) if path.startswith("metadata/")]
    path = max(metadata, key=lambda each: (front.world.data_dir / "tree" / each).stat().st_size)
    packed = ask(f"{front.url}/{path}", Accept_Encoding="gzip")
    assert packed.headers["content-encoding"] == "gzip"
    assert len(packed.body) < 0.6 * len(ask(f"{front.url}/{path}").body)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/metadata/",
        "/metadata",
        "/.lock",
        "/metadata/0.root.json",
        "/metadata/2.root.json",
        "/metadata/../.lock",
        "/metadata/%2e%2e/.lock",
        "/blobs/" + "0" * 64,
        "/blobs/" + "0" * 63,
        "/blobs/..%2f..%2falcove.db",
        "/targets/text_00/x.json",
        "/../alcove.db",
        "/reports/",
        "/anything",
    ],
)
def test_nothing_else_is_served(front: Front, path: str) -> None:
    """The lock, the database above it, folders, what is not there: absent; the next root for a minute."""
    (front.world.data_dir / "tree" / ".lock").touch()
    answer = ask(front.url + path)
    assert answer.status in (400, 404)
    if answer.status == 404:
        lifetime = "public, max-age=60" if path == "/metadata/2.root.json" else "no-store"
        assert answer.headers["cache-control"] == lifetime
    assert "nginx/" not in answer.headers.get("server", "")


def test_device_reads_the_tree_through_nginx(front: Front, tmp_path: Path) -> None:
    """With our client and its own way to the network: refresh, manifest, and a program's bytes."""
    egress = Egress(front.url)
    tree = RepositoryClient(
        tmp_path / "device", TufFetcher(egress, front.url), front.url, trusted_root=front.world.tree.root_bytes()
    )
    tree.refresh()
    manifest = tree.manifest(FEATURE, "1.0.0")
    with egress.get(f"/blobs/{manifest.variants[0].sha256}", max_bytes=manifest.variants[0].size_bytes) as download:
        assert b"".join(download.chunks) == f"program {FEATURE} 1.0.0".encode()
    egress.close()


def report(front: Front, body: bytes, **headers: str) -> int:
    """Return the status of a report."""
    given = HEADERS | {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(f"{front.url}/reports", data=body, headers=given, method="POST")
    with pytest.raises(urllib.error.HTTPError) as refusal:
        urllib.request.urlopen(request, timeout=60)
    refusal.value.close()
    return refusal.value.code


def test_reports_reach_the_server_without_an_address(front: Front) -> None:
    """Of no task, or of the wrong length, they are refused by alcove itself."""
    assert [report(front, bytes(length)) for length in (38, 37)] == [400, 400]
    assert ask(f"{front.url}/healthz").body == b"ok\n"
    assert "X-Forwarded-For" not in NGINX_CONFIGURATION.read_text(encoding="utf-8").replace("# No X-Forwarded-For", "")


def test_what_no_device_sends_is_refused_in_front(front: Front) -> None:
    """Too long, packed, from a page, of another media type: nginx says what alcove would."""
    assert report(front, bytes(69)) == 413
    assert report(front, bytes(70_000)) == 413
    assert report(front, bytes(38), Content_Encoding="gzip") == 415
    assert report(front, bytes(38), Origin="https://page.example") == 403
    assert report(front, bytes(38), Content_Type="text/plain") == 415
    assert ask(f"{front.url}/reports").status == 405


def test_one_address_has_its_share_and_its_places(front: Front) -> None:
    """Past the burst it is 429; connections past its places as well; nothing of it is in nginx's log."""
    port = int(front.url.rpartition(":")[2])
    with contextlib.ExitStack() as stack:
        # As many as have asked at the same time and have not read: nginx counts a connection once it has a request.
        blob = next(path for path in every_file(front) if path.startswith("blobs/"))
        statuses = set()
        for _ in range(900):
            connection = stack.enter_context(
                contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60))
            )
            connection.request("GET", f"/{blob}")
            statuses.add(connection.getresponse().status)
            if 429 in statuses:
                break
    assert statuses == {200, 429}
