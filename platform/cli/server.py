"""`alcove server`: shows how a server is; backs up, restores and migrates its data, on the machine that holds it."""

from alcove.platform.cli.options import CommandGroup
from alcove.platform.cli.server_backup import backup_command, backups_command, prune_command, restore_command
from alcove.platform.cli.server_migrate import migrate_command
from alcove.platform.cli.server_status import status_command

__all__ = ["app"]

app = CommandGroup(
    no_args_is_help=True, help="Show how a server is; back up, restore and migrate its data, beside its data folder."
)
app.command("status")(status_command)
app.command("backup")(backup_command)
app.command("backups")(backups_command)
app.command("restore")(restore_command)
app.command("prune")(prune_command)
app.command("migrate")(migrate_command)
