"""Defines what is wrong with the server itself: its files, stores and processes."""

from pathlib import Path

from alcove.platform.domain.errors.root import PlatformError


class ServerError(PlatformError):
    """The server itself is set up wrongly."""


class KeyWithinReachError(ServerError):
    """A private key that is none of the server's online keys lies in its folders."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(f"{path} is a private key that the server must not be able to read: move it elsewhere")


class OnlineKeyError(ServerError):
    """An online key is missing, unreadable or not the one that the tree trusts for its role."""

    def __init__(self, role: str, path: Path, problem: str) -> None:
        self.role, self.path, self.problem = role, path, problem
        super().__init__(f"online key of role {role!r} ({path}): {problem}")


class RepositoryMissingError(ServerError):
    """The data folder holds no signed tree."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(f"{folder} holds no signed tree: make one with 'alcove keys create'")


class DataFolderBusyError(ServerError):
    """Another server process uses the data folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(f"{folder} is used by another server process: stop it or choose another data folder")


class IngressFailedError(ServerError):
    """The process that answers devices does not start."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"the devices' process does not start: {problem}")


class ConsoleFailedError(ServerError):
    """The process that shows the console does not start."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"the console's process does not start: {problem}")


class TlsFilesError(ServerError):
    """The TLS certificate and its key cannot be used together, or at all."""

    def __init__(self, certificate: Path, key: Path | None, problem: str) -> None:
        self.certificate, self.key, self.problem = certificate, key, problem
        super().__init__(f"TLS certificate {certificate} and key {key}: {problem}")


class OtherStoreError(ServerError):
    """A database or a store of blobs that is not the data folder's; `path` is what says so."""

    def __init__(self, path: Path | str, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: {problem}")


class SchemaTooNewError(ServerError):
    """A newer alcove has changed the database's schema; this one knows nothing of it."""

    def __init__(self, where: str, revision: str, newest: str) -> None:
        self.where, self.revision, self.newest = where, revision, newest
        super().__init__(
            f"{where}: a newer alcove has written it (schema {revision!r}, this one knows up to {newest!r}): start "
            "that version, or restore the back-up from before its start"
        )


class CertificateListError(ServerError):
    """The list of client certificates cannot be read, or is none."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"list of client certificates {path}: {problem}")


class ProviderSettingsError(ServerError):
    """Sign-in through a provider of OpenID Connect is set up wrongly."""

    def __init__(self, what: str, problem: str) -> None:
        self.what, self.problem = what, problem
        super().__init__(f"sign-in by OpenID Connect: {what}: {problem}")


class AggregatorFileError(ServerError):
    """A file of an aggregator, its configuration or one of its keys, cannot be used."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: {problem}")


class AlertsFileError(ServerError):
    """The configuration of alerts cannot be used."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: {problem}")


class PeerUnavailableError(ServerError):
    """Another party of a task, an aggregator, cannot be reached or answers what is no answer; asking again helps."""

    def __init__(self, url: str, problem: str) -> None:
        self.url, self.problem = url, problem
        super().__init__(f"{url}: {problem}")


class TracingMissingError(ServerError):
    """Traces are asked for, and OpenTelemetry is not installed."""

    def __init__(self) -> None:
        super().__init__("traces need OpenTelemetry: pip install 'alcove-platform[server,traces]'")


class ServerStoppingError(ServerError):
    """The server was asked to stop while the call ran."""

    def __init__(self) -> None:
        super().__init__("the server is stopping: try again")


class ServerFullError(ServerError):
    """All callers together have as many calls under way as there may be; some places are for operators only."""

    def __init__(self, most: int) -> None:
        self.most = most
        super().__init__(f"calls of all callers: at most {most} at once; try again")


class StoreBusyError(ServerError):
    """Another writer holds the database for longer than a writer waits."""

    def __init__(self) -> None:
        super().__init__("the database is busy: try again")


class StoreDamagedError(ServerError):
    """The database's file is no database, or a damaged one."""

    def __init__(self, path: str, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: {problem}: put a backup in its place")


class StoreOccupiedError(ServerError):
    """A database that is to be filled from a backup holds rows already."""

    def __init__(self, where: str, table: str, count: int) -> None:
        self.where, self.table, self.count = where, table, count
        super().__init__(f"{where}: holds {count} rows of {table}: a backup is restored into an empty database")


class BackupError(ServerError):
    """A backup is not there, is damaged, or was made by a newer version."""

    def __init__(self, backup: str, problem: str) -> None:
        self.backup, self.problem = backup, problem
        super().__init__(f"backup {backup}: {problem}")


class RestoreRefusedError(ServerError):
    """A restore would mix with other data, or go behind what was published, without being asked to."""

    def __init__(self, place: str, problem: str) -> None:
        self.place, self.problem = place, problem
        super().__init__(f"{place}: {problem}")


class StoreFullError(ServerError):
    """The database has no room left; what was asked did not happen."""

    def __init__(self, where: str, problem: str) -> None:
        self.where, self.problem = where, problem
        super().__init__(f"{where}: {problem}: make room and try again")


class StoreUnavailableError(ServerError):
    """The database cannot be reached, or does not let us in; `where` names it without user and password."""

    def __init__(self, where: str, problem: str) -> None:
        self.where, self.problem = where, problem
        super().__init__(f"{where}: {problem}")
