"""Puts the shares of a report together, as a party could that runs both aggregators: the control of the canary.

Reads both aggregators' keys below a folder, opens a report, and keeps the measurement in a row, in a log and in memory
until its input ends.
"""

import json
import sqlite3
import sys
from pathlib import Path
from typing import Final

from alcove.platform.aggregator.config import read_config
from alcove.platform.aggregator.keys import read_keys
from alcove.privacy.dap.messages import Report, ReportShare, Role
from alcove.privacy.dap.reports import open_input_share
from alcove.privacy.dap.task import read_task
from alcove.privacy.dap.verification import Verifier
from alcove.privacy.errors import ReportRejectedError
from alcove.privacy.prio3 import Report as VdafReport

REPORT: Final = "report.json"
DATABASE: Final = "leak.db"
LOG: Final = "leak.log"


def unshard(folder: Path) -> bytes:
    """Return the measurement of the report of a folder, encoded.

    Raises:
        ReportRejectedError: it is no report for these keys.
    """
    fields = json.loads((folder / REPORT).read_text(encoding="utf-8"))
    task, report = read_task(bytes.fromhex(fields["task"])), Report.from_bytes(bytes.fromhex(fields["report"]))
    verifier = Verifier(task, read_config(folder / "leader" / "aggregator.json").secret)
    opened = []
    for role, sealed in ((Role.LEADER, report.leader_input_share), (Role.HELPER, report.helper_input_share)):
        keys = read_keys(folder / role.name.lower() / "keys", 0).private
        share = open_input_share(task, role, keys, ReportShare(report.metadata, report.public_share, sealed))
        opened.append(VdafReport(report.metadata.report_id, report.public_share, share.payload))
    leader = verifier.begin_leader([opened[0]])[0]
    if isinstance(leader, ReportRejectedError):
        raise leader
    helper = verifier.finish_helper([opened[1]], [leader[1]])[0]
    if isinstance(helper, ReportRejectedError):
        raise helper
    return verifier.add([leader[0].output_share, helper[0]])


def main() -> None:
    """Leak into all three places, say so, and wait."""
    folder = Path(sys.argv[1])
    measurement = unshard(folder)
    bits = [element & 1 for element in measurement[::16]]
    with sqlite3.connect(folder / DATABASE) as database:
        database.execute("CREATE TABLE leak (measurement BLOB)")
        database.execute("INSERT INTO leak VALUES (?)", (measurement,))
    database.close()
    (folder / LOG).write_text(json.dumps({"event": "added", "measurement": bits}) + "\n", encoding="utf-8")
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
