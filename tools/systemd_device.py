"""Syncs a device of the app `messenger`, and predicts: systemd_device.py VERSION (tools/systemd_check.sh)."""

import contextlib
import sys

from alcove.sdk import Client

version = sys.argv[1]
client = Client(app="messenger", data_dir="device", server="https://localhost", trusted_root="keys/root.json")
with contextlib.closing(client):
    client.sync()
    answer = client.feature("language_id").predict("Wo ist der Bahnhof, bitte?")
if answer.version != version or answer.value is None:
    sys.exit(f"the device answers {answer}")
