"""An app gives the SDK a folder with somebody's things in it, or somebody puts links into the SDK's folder."""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from alcove.sdk import CallError, Client, ForeignFolderError
from alcove.sdk.owned import MARK, PARTS, WITHIN
from alcove.sdk.storage import Files
from alcove.sdk.testing import fake_program
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sdk.conftest import FEATURE, Device, World

PRECIOUS = b"the only copy"


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder, links followed."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def put(folder: Path, *names: str) -> None:
    """Make files in a folder."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(PRECIOUS)


FOREIGN = {
    "a home": ("notes.txt", "downloads/film.mp4", "versions/mine/1/thesis.tex"),
    "downloads alone": ("downloads/film.mp4",),
    "staging alone": ("staging/site/index.html",),
    "versions alone": ("versions/a/b/c",),
    "a stray partial": ("film.mp4.partial",),
    "names of ours as files": ("downloads", "staging", "versions", "lock"),
    "ours and one more": ("lock", "downloads/x", "staging/x", "versions/x/y/z", "reports/x", "diary.txt"),
    "a state without the rest": ("state.json", "identity"),
    "hidden": (".git/config",),
}


@pytest.mark.parametrize("names", FOREIGN.values(), ids=FOREIGN)
def test_folder_of_somebody_else_is_refused_and_not_touched(device: Device, names: tuple[str, ...]) -> None:
    """A typed error that names folder and finds; not a byte changes, nor a name."""
    put(device.folder, *names)
    before = contents(device.folder)
    with pytest.raises(ForeignFolderError) as caught:
        device.client()
    assert isinstance(caught.value, CallError)
    assert str(device.folder) in str(caught.value)
    assert set(caught.value.found) == {path.name for path in device.folder.iterdir()}
    assert contents(device.folder) == before


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(
    st.sets(st.sampled_from([*PARTS, "lock", "state.json", "identity", "x", "x.partial", "Downloads"])), st.booleans()
)
def test_whatever_lies_in_a_folder_without_our_mark_survives_its_opening(
    tmp_path_factory: pytest.TempPathFactory, device: Device, names: set[str], is_full: bool
) -> None:
    """Refused, or taken for what an older SDK left, which had all of its parts: then it is ours to tidy."""
    folder = tmp_path_factory.mktemp("any")
    put(folder, *(f"{name}/precious" if is_full and name in PARTS else name for name in names))
    before = contents(folder)
    is_of_before = names >= {"downloads", "staging", "versions", "lock"} and not names & {"x", "Downloads"}
    try:
        Client("messenger", folder, "http://127.0.0.1:1", device.world.root).close()
    except ForeignFolderError:
        assert contents(folder) == before
        assert names
    else:
        assert not names or (is_full and is_of_before)


def test_folder_of_an_older_sdk_is_recognised_and_continues(device: Device) -> None:
    """What it installed, knew and had begun is there; the mark is set."""
    assert device.client().sync().error is None
    for name in (MARK, "freshness.json", "freshness.lock"):
        (device.folder / name).unlink()
    identity = (device.folder / "identity").read_bytes()
    client = device.client()
    assert device.answer(client) == "one 1.0.0 default"
    assert (device.folder / MARK).is_file()
    assert (device.folder / "identity").read_bytes() == identity
    assert client.sync().error is None


def test_first_start_of_an_older_sdk_is_recognised_too(device: Device) -> None:
    """Before anything was synced it had made its folders and its lock."""
    device.folder.mkdir()
    for name in ("downloads", "staging", "versions", "reports"):
        (device.folder / name).mkdir()
    (device.folder / "lock").touch()
    assert device.client().sync().error is None


def test_kill_at_every_step_of_a_first_start_leaves_a_folder_that_is_ours(device: Device) -> None:
    """Whichever step was the last: the next start takes it."""

    class _KilledError(BaseException):
        pass

    for last in range(100):
        shutil.rmtree(device.folder, ignore_errors=True)
        steps = 0

        def kill(step: str, path: Path, last: int = last) -> None:
            nonlocal steps
            steps += 1
            if steps > last:
                raise _KilledError

        try:
            device.client(files=Files(kill))
        except _KilledError:
            assert device.answer(device.client()) == "shipped baseline baseline"
        else:
            assert last > 3
            return
    raise AssertionError("the start never ended")


def test_starts_at_one_time_agree_that_the_folder_is_theirs(device: Device) -> None:
    """Eight at once on an absent folder: none is refused."""
    errors: list[BaseException] = []
    gate = threading.Barrier(8)

    def start() -> None:
        gate.wait()
        try:
            Client("messenger", device.folder, "http://127.0.0.1:1", device.world.root).close()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test shall see it
            errors.append(error)

    for _ in range(10):
        shutil.rmtree(device.folder, ignore_errors=True)
        threads = [threading.Thread(target=start) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert errors == []


@pytest.mark.parametrize("part", PARTS + WITHIN)
def test_part_that_is_a_link_is_refused(device: Device, tmp_path: Path, part: str) -> None:
    """Where it leads nothing is removed or written, at the start or, if it came later, at a sync."""
    client = device.client()
    assert client.sync().error is None
    put(tmp_path / "elsewhere", "a/b/c", "x.partial", "film.mp4")
    before = contents(tmp_path / "elsewhere")
    shutil.rmtree(device.folder / part)
    (device.folder / part).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ForeignFolderError) as caught:
        device.client()
    assert caught.value.found == (part,)
    device.world.push("3.0.0", fake_program("three"))
    device.world.set_policy("3.0.0")
    result = client.sync()
    assert isinstance(result.error, ForeignFolderError)
    assert contents(tmp_path / "elsewhere") == before


def link_feature(device: Device, elsewhere: Path, _: World) -> None:
    """The folder of another feature leads elsewhere."""
    (device.folder / "versions" / "other").symlink_to(elsewhere)


def link_own_feature(device: Device, elsewhere: Path, _: World) -> None:
    """The feature's own folder does."""
    shutil.rmtree(device.folder / "versions" / FEATURE)
    (device.folder / "versions" / FEATURE).symlink_to(elsewhere)


def link_version(device: Device, elsewhere: Path, _: World) -> None:
    """The folder of a version does."""
    (device.folder / "versions" / FEATURE / ("0" * 64)).symlink_to(elsewhere)


def link_part(device: Device, elsewhere: Path, world: World) -> None:
    """A started download is a link to a file elsewhere."""
    (device.folder / "downloads" / f"{world.blob('3.0.0').name}.part").symlink_to(elsewhere / "film.mp4")


def link_leftover(device: Device, elsewhere: Path, _: World) -> None:
    """What a crash seems to have left leads elsewhere."""
    (device.folder / "staging" / "x").symlink_to(elsewhere)
    (device.folder / "x.partial").symlink_to(elsewhere / "film.mp4")


def link_documents(device: Device, elsewhere: Path, _: World) -> None:
    """So do the documents of the signed tree, and what a crash seems to have left of them."""
    for path in sorted((device.folder / "metadata").rglob("*.*")):
        if path.is_file():
            path.with_name(f".{path.name}.partial").symlink_to(elsewhere / "film.mp4")
            path.unlink()
            path.symlink_to(elsewhere / "film.mp4")


def link_reports(device: Device, elsewhere: Path, world: World) -> None:
    """So do the files that the app's outcomes go to, one of them to a place where there is nothing."""
    world.set_policy("3.0.0", rollout=("3.0.0", 10_000), control=0)
    for name in ("history.json", "met.json", "outbox.json", "pending.json", "questions.jsonl", "strata.json"):
        (device.folder / "reports" / name).symlink_to(elsewhere / "film.mp4")
    (device.folder / "reports" / "ledger.jsonl").symlink_to(elsewhere / "new")


@pytest.mark.parametrize(
    "link",
    [link_feature, link_own_feature, link_version, link_part, link_leftover, link_documents, link_reports],
)
def test_nothing_is_removed_or_written_through_a_link(
    device: Device, tmp_path: Path, link: Callable[[Device, Path, World], None]
) -> None:
    """Deeper links are removed themselves, or replaced; what they lead to stays as it was, mode and all."""
    assert device.client().sync().error is None
    elsewhere = tmp_path / "elsewhere"
    put(elsewhere, "a/b/c", "film.mp4", "0" * 64 + "/program.alc")
    device.world.push("3.0.0", fake_program("three"))
    device.world.set_policy("3.0.0")
    before, mode = contents(elsewhere), (elsewhere / "film.mp4").stat().st_mode
    link(device, elsewhere, device.world)
    client = device.client()
    client.sync()
    client.sync()
    handle = client.feature(FEATURE)
    handle.predict("hello")
    handle.record_outcome(True)
    client.report()
    assert contents(elsewhere) == before
    assert (elsewhere / "film.mp4").stat().st_mode == mode
    assert device.answer(client).startswith("three 3.0.0")


def test_folder_that_is_reached_by_a_link_is_taken(device: Device, tmp_path: Path) -> None:
    """Where the app's own folder lies is the app's matter."""
    (tmp_path / "real").mkdir()
    device.folder.symlink_to(tmp_path / "real")
    assert device.client().sync().error is None
    assert device.answer(device.client()) == "one 1.0.0 default"
