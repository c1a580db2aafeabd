"""Keeps an aggregator's HPKE keys: files that only it reads, the newest advertised, the older ones still opened.

A report is sealed to the key that a device has last seen, so a key stays for twice the time that devices may keep it.
Several processes of an aggregator have one set of keys; devices are told of a new one when each process has read it.
"""

import base64
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from alcove.platform.domain.errors import AggregatorFileError
from alcove.privacy import hpke
from alcove.privacy.dap.messages import HpkeConfig, HpkeConfigList
from alcove.privacy.dap.reports import make_config
from alcove.registry.keys import check_private_file, write_private_file
from alcove.runtime.files import DISK

__all__ = ["ADVERTISE_AFTER_S", "CACHE_S", "READ_AGAIN_S", "KeyRing", "read_keys", "rotate_key"]

CACHE_S: Final = 86_400
"""Seconds that devices may keep the list of configurations."""

KEPT_S: Final = 2 * CACHE_S
"""Seconds that a key is still opened after a newer one was made (draft-ietf-ppm-dap-18, section 4.4.1)."""

READ_AGAIN_S: Final = 60
"""Seconds after which a running aggregator reads its keys again: a rotation needs no restart."""

ADVERTISE_AFTER_S: Final = 2 * READ_AGAIN_S
"""Seconds until devices are told of a new key: a process that had not read it would leave out what is sealed to it."""

_CONFIG_IDS: Final = 256


@dataclass(frozen=True)
class KeyRing:
    """The keys of an aggregator.

    Attributes:
        configs: what devices are told: the newest key that every process has.
        private: private keys by the id of their configuration.
    """

    configs: HpkeConfigList
    private: Mapping[int, bytes]


@dataclass(frozen=True)
class _Key:
    config_id: int
    private: bytes
    created_at_s: int

    @property
    def config(self) -> HpkeConfig:
        return make_config(self.config_id, hpke.derive_public_key(self.private))


def read_keys(folder: Path, now_s: int) -> KeyRing:
    """Return the keys of a folder; where there is none, one is made.

    Raises:
        AggregatorFileError: a file is no key.
        KeyFileError: others may read it.
        OSError: the folder cannot be used.
    """
    keys = _list_keys(folder)
    if not keys:
        rotate_key(folder, now_s)
        keys = _list_keys(folder)
    known = [key for key in keys if now_s >= key.created_at_s + ADVERTISE_AFTER_S]
    current = known[-1] if known else keys[0]
    usable = [key for key, newer in pairwise(keys) if now_s < newer.created_at_s + KEPT_S]
    return KeyRing(HpkeConfigList((current.config,)), {key.config_id: key.private for key in [*usable, keys[-1]]})


def rotate_key(folder: Path, now_s: int) -> int:
    """Make a new key, advertised `ADVERTISE_AFTER_S` later; remove those that nobody uses; return its id.

    Raises:
        AggregatorFileError: a file is no key.
        KeyFileError: others may read it.
        OSError: the folder cannot be used.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    keys = _list_keys(folder)
    config_id = (keys[-1].config_id + 1) % _CONFIG_IDS if keys else secrets.randbelow(_CONFIG_IDS)
    fields = {
        "config_id": config_id,
        "created_at_s": max([now_s, *(key.created_at_s + 1 for key in keys)]),
        "private_key": base64.b64encode(hpke.generate_private_key()).decode(),
    }
    _write_key(_path(folder, config_id), json.dumps(fields).encode())
    for key, newer in pairwise(keys):
        if now_s >= newer.created_at_s + KEPT_S:
            _path(folder, key.config_id).unlink()
    return config_id


def _path(folder: Path, config_id: int) -> Path:
    return folder / f"hpke-{config_id:03}.json"


def _write_key(path: Path, data: bytes) -> None:
    """Put a whole file in its place, or none."""
    partial = path.with_name(f".{path.name}.partial")
    partial.unlink(missing_ok=True)
    write_private_file(partial, data)
    DISK.rename(partial, path)
    DISK.sync_folder(path.parent)


def _list_keys(folder: Path) -> list[_Key]:
    """Return the keys, the oldest first."""
    return sorted((_read_key(path) for path in folder.glob("hpke-*.json")), key=lambda key: key.created_at_s)


def _read_key(path: Path) -> _Key:
    check_private_file(path)
    try:
        fields = json.loads(path.read_bytes())
        key = _Key(int(fields["config_id"]), base64.b64decode(fields["private_key"]), int(fields["created_at_s"]))
        is_named_so = path == _path(path.parent, key.config_id)
        if 0 <= key.config_id < _CONFIG_IDS and len(key.private) == hpke.KEY_BYTES and is_named_so:
            return key
    except (ValueError, KeyError, TypeError):
        pass
    raise AggregatorFileError(path, "no key of an aggregator: put a backup in its place")
