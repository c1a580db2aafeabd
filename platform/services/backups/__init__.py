"""Backs up a server's rows, signed tree and blobs together, and restores them into an empty place."""

from alcove.platform.services.backups.create import BackupResult, create_backup
from alcove.platform.services.backups.place import BackupPlace, open_place
from alcove.platform.services.backups.record import BackupRecord
from alcove.platform.services.backups.restore import RestoreResult, restore_backup
from alcove.platform.services.backups.server_data import ServerData

__all__ = [
    "BackupPlace",
    "BackupRecord",
    "BackupResult",
    "RestoreResult",
    "ServerData",
    "create_backup",
    "open_place",
    "restore_backup",
]
