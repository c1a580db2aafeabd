"""Tests installed wheels in the environment that runs it: `python -W error wheel_check.py REFERENCE FEATURE ...`.

Reads nothing of the repository: it may be copied beside the folder that `tools.wheel_reference` wrote.  Tested are that
all modules import, that every feature answers, that the programs' parity certificates hold (each native output has the
digest that was computed where the program was made, so it is the same to the bit), that a client syncs from a folder of
static files, and that the C library loads.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import pkgutil
import sys
import tempfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import alcove
import alcove.sdk
from alcove.features import catalogue
from alcove.runtime.certificate.check import check_certificate
from alcove.runtime.certificate.document import decode_input, parse
from alcove.runtime.model import load

if TYPE_CHECKING:
    from collections.abc import Iterator

SKIPPED = frozenset({"alcove.sdk.openfeature", "alcove.runtime.libalcove"})
"""The first needs an extra; the second is no module, but C's."""


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder and prints nothing."""

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the base class's name
        """Leave it out."""


def import_all() -> int:
    """Import every module that is installed below `alcove`; return how many."""
    package = importlib.import_module("alcove")
    names = [found.name for found in walk(package.__path__, "alcove.") if found.name not in SKIPPED]
    for name in names:
        importlib.import_module(name)
    return len(names)


def walk(path: Any, prefix: str) -> Iterator[pkgutil.ModuleInfo]:
    """Yield every module below a path, `alcove.platform` and its like without an `__init__.py` too."""
    for found in pkgutil.iter_modules(path, prefix):
        yield found
        if found.ispkg:
            yield from walk(importlib.import_module(found.name).__path__, f"{found.name}.")


def predict(client: alcove.sdk.Client, name: str) -> str:
    """Return what is said of a feature that answers, and whose certificate holds.

    Raises:
        CertificateError: an output is not the same to the bit, or not within the tolerance.
        RuntimeError: a prediction gave no value.
    """
    model = load(catalogue()[name].default_program)
    report = check_certificate(model)
    sample = next(each for each in parse(model.certificate).samples if (each.method or "forward") == model.name)
    answer = client.feature(name).predict(*(decode_input(0, value) for value in sample.inputs))
    if answer.value is None:
        raise RuntimeError(f"{name}: no value ({answer.error})")
    return f"{name}: {report.samples} samples to the bit, certificate {report.digest[:12]}"


def sync(client: alcove.sdk.Client) -> str:
    """Return the version that the client has after a sync, which is not the one that it brought along.

    Raises:
        RuntimeError: it has none.
    """
    result = client.sync()
    answer = client.feature("language_id").predict("Wo ist der Bahnhof?")
    if answer.value is None or answer.version == "baseline":
        raise RuntimeError(f"the sync gave no version: {result}")
    return str(answer.version)


def load_c_library() -> str:
    """Return the version that `libalcove.so` says, after it opened a program.

    Raises:
        RuntimeError: it is not that of the distribution, or the program was not opened.
    """
    (folder,) = importlib.import_module("alcove.runtime").__path__
    library = ctypes.CDLL(str(Path(folder) / "libalcove.so"))
    library.alcove_version.restype = ctypes.c_char_p
    version = bytes(library.alcove_version()).decode()
    model = ctypes.c_void_p()
    program = str(catalogue()["language_id"].default_program).encode()
    status = library.alcove_model_open_file(program, ctypes.byref(model))
    library.alcove_model_close(model)
    if status != 0 or version != alcove.__version__:
        raise RuntimeError(f"libalcove.so {version} opened no program: {status}")
    return version


def main() -> None:
    """Test, and say what held."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("reference", type=Path, help="folder that tools.wheel_reference wrote")
    parser.add_argument("features", nargs="+", help="those that are to be installed")
    options = parser.parse_args()
    if sorted(options.features) != sorted(catalogue()):
        raise SystemExit(f"installed are {sorted(catalogue())}, not {sorted(options.features)}")
    handler = partial(Quiet, directory=str(options.reference / "tree"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, tempfile.TemporaryDirectory() as folder:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        said = [f"{import_all()} modules import"]
        address = f"http://127.0.0.1:{server.server_port}"
        root = (options.reference / "root.json").read_bytes()
        with alcove.sdk.Client(
            app="messenger", data_dir=Path(folder) / "data", server=address, trusted_root=root
        ) as client:
            said += [predict(client, name) for name in sorted(options.features)]
            said.append(f"synced to {sync(client)}")
        server.shutdown()
    said.append(f"libalcove.so {load_c_library()}")
    for line in said:
        sys.stdout.write(f"  {line}\n")
    python = ".".join(map(str, sys.version_info[:3]))
    sys.stdout.write(f"alcove {alcove.__version__} works on Python {python}\n")


if __name__ == "__main__":
    main()
