"""How is the server run where programs may be pretended ones?  As the real one, but for what reads programs.

`python -m alcove.platform.testing.pretend_server [--as-uid UID] …options of alcove.platform.server…`

With `--as-uid` (started as root) the process gives up root before it reads anything: what other users may not read is
then out of its reach.
"""

import os
import sys

from alcove.platform.server.__main__ import main
from alcove.registry import inspection
from alcove.registry.testing import PretendInspector

__all__ = ["run"]


def run(arguments: list[str]) -> int:
    """Serve; return the exit code."""
    if arguments[:1] == ["--as-uid"]:
        uid = int(arguments[1])
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        arguments = arguments[2:]
    inspection.RuntimeInspector = PretendInspector  # type: ignore[misc, assignment]  # the one thing that is pretended
    return main(arguments)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
