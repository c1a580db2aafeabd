"""Says where the C interface lies and how to link it: `python -m alcove.runtime --cflags --libs`.

cc app.c $(python -m alcove.runtime --cflags --libs)
"""

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

HEADER = "alcove.h"
LIBRARY = "libalcove.so"


def library_folder() -> Path:
    """Return the folder of the C library: beside the native module, wherever that is installed.

    Raises:
        FileNotFoundError: this installation has none.
    """
    native = find_spec("alcove.runtime._native")
    folder = Path(native.origin or "").parent if native is not None else Path()
    if not (folder / LIBRARY).is_file():
        raise FileNotFoundError(f"no {LIBRARY} beside {native.origin if native else 'alcove.runtime'}")
    return folder


def main(arguments: list[str] | None = None) -> None:
    """Print what was asked for, in one line."""
    parser = argparse.ArgumentParser(
        prog="python -m alcove.runtime", description=f"Say where {HEADER} and {LIBRARY} are and how to link them."
    )
    parser.add_argument("--cflags", action="store_true", help="flags of a compiler")
    parser.add_argument("--libs", action="store_true", help="flags of a linker; the library is found where it is now")
    parser.add_argument("--includedir", action="store_true", help=f"folder of {HEADER} and alcove.hpp")
    parser.add_argument("--libdir", action="store_true", help=f"folder of {LIBRARY}")
    options = parser.parse_args(arguments)
    try:
        folder = library_folder()
    except FileNotFoundError as error:
        parser.exit(1, f"{parser.prog}: {error}\n")
    found = {
        "cflags": f"-I{folder / 'include'}",
        "libs": f"-L{folder} -lalcove -Wl,-rpath,{folder}",
        "includedir": str(folder / "include"),
        "libdir": str(folder),
    }
    asked = [text for name, text in found.items() if getattr(options, name)]
    if not asked:
        parser.print_help()
        return
    sys.stdout.write(" ".join(asked) + "\n")


if __name__ == "__main__":
    main()
