"""The server's disk: whatever is done to its files breaks downloads, and changes nothing that a device takes."""

import shutil
from collections.abc import Callable

from alcove.registry.errors import RegistryError
from alcove.registry.testing import RepositoryFixture

from tests.attacks.attacker import read_everything


def flip(data: bytes, position: int) -> bytes:
    """The bytes with one bit of one of them turned."""
    return data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


DAMAGES: dict[str, Callable[[bytes, bytes], bytes | None]] = {
    "gone": lambda _, __: None,
    "empty": lambda _, __: b"",
    "cut": lambda data, _: data[: len(data) // 2],
    "first byte": lambda data, _: flip(data, 0),
    "middle byte": lambda data, _: flip(data, len(data) // 2),
    "longer": lambda data, _: data + b" ",
    "another file": lambda _, other: other,
}


def test_every_damage_to_every_file_is_refused_or_changes_nothing(published_repository: RepositoryFixture) -> None:
    """Each file of the tree, each kind of damage, on a device that knows the tree and on a new one."""
    published_repository.push(published_repository.package("2.0.0"))
    published_repository.tree.publish_policy("messenger", published_repository.policy(2, "2.0.0").to_bytes())
    truth = read_everything(published_repository, "known")
    everything = published_repository.tree.folder.rglob("*.json")
    files = sorted(path for path in everything if path.name != "1.root.json")  # that one the app has
    refused = 0
    for number, path in enumerate(files):
        data, other = path.read_bytes(), files[number - 1].read_bytes()
        for kind, damage in DAMAGES.items():
            bad = damage(data, other)
            path.unlink() if bad is None else path.write_bytes(bad)
            shutil.copytree(published_repository.folder / "known", published_repository.folder / "old", symlinks=True)
            for device in ("old", "new"):
                try:
                    assert read_everything(published_repository, device) == truth, (path, kind)
                except RegistryError:
                    refused += 1
                shutil.rmtree(published_repository.folder / device, ignore_errors=True)
            path.write_bytes(data)
    assert refused > len(files)
    assert read_everything(published_repository, "known") == truth
