"""`alcove server`: back up, restore and migrate a server's data, on the machine that holds it."""

from alcove.platform.cli.options import CommandGroup
from alcove.platform.cli.server_backup import backup_command, backups_command, prune_command, restore_command
from alcove.platform.cli.server_migrate import migrate_command

__all__ = ["app"]

app = CommandGroup(no_args_is_help=True, help="Back up, restore and migrate a server's data, beside its data folder.")
app.command("backup")(backup_command)
app.command("backups")(backups_command)
app.command("restore")(restore_command)
app.command("prune")(prune_command)
app.command("migrate")(migrate_command)
