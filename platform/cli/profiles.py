"""Keeps where a server is, and as whom to call it, by name: `profiles.json` in the user's configuration folder.

The file names other files and holds no secret; it and the tokens beside it are 0600 all the same.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final

import typer
from alcove.platform.cli.files import read_secret
from alcove.platform.domain.errors import InvalidFieldError

__all__ = [
    "DEFAULT_PROFILE",
    "Profile",
    "ProfileName",
    "find_profile",
    "profiles_file",
    "read_profiles",
    "token_path",
    "write_profiles",
    "write_secret",
]

DEFAULT_PROFILE: Final = "default"

ProfileName = Annotated[
    str | None,
    typer.Option(
        "--profile",
        envvar="ALCOVE_PROFILE",
        help="Server, token and trusted certificates of this name (alcove login); what is given besides counts more.",
    ),
]


@dataclass(frozen=True)
class Profile:
    """A server and a way to call it.

    Attributes:
        server: host:port of the gRPC server.
        token_file: file with the API token; "" where a client certificate says who calls.
        tls_root: PEM file of certificates to trust; "" for the system's.
    """

    server: str
    token_file: str = ""
    tls_root: str = ""


def profiles_file() -> Path:
    """Return the file of the profiles: in ALCOVE_CONFIG_DIR, else in alcove/ of the user's configuration folder."""
    named = os.environ.get("ALCOVE_CONFIG_DIR")
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return (Path(named) if named else home / "alcove") / "profiles.json"


def token_path(name: str) -> Path:
    """Return the file in which `alcove login` keeps the token of a profile."""
    return profiles_file().with_name(f"{name}.token")


def read_profiles() -> dict[str, Profile]:
    """Return the profiles by name, none where there is no file.

    Raises:
        KeyFileError: the file is open to others.
        InvalidFieldError: it holds something else.
        OSError: it cannot be read.
    """
    path = profiles_file()
    if not path.exists():
        return {}
    try:
        return {name: Profile(**fields) for name, fields in json.loads(read_secret(path)).items()}
    except (ValueError, TypeError, AttributeError) as error:
        bound = "profiles as alcove login writes them; put it right, or delete it and log in again"
        raise InvalidFieldError(str(path), bound, str(error)) from None


def find_profile(name: str | None, *, server: str | None) -> Profile | None:
    """Return the profile of a name; without a name the default one, if there is one and no server is named.

    A server that is named is not called with the token of another one.

    Raises:
        typer.BadParameter: there is no profile of this name.
        KeyFileError, InvalidFieldError, OSError: as `read_profiles`.
    """
    if name is None:
        return None if server else read_profiles().get(DEFAULT_PROFILE)
    found = read_profiles()
    if name not in found:
        known = f"there are {', '.join(sorted(found))}" if found else "there is none"
        raise typer.BadParameter(f"no profile {name!r}; {known}: alcove login --profile {name}", param_hint="--profile")
    return found[name]


def write_profiles(profiles: dict[str, Profile]) -> None:
    """Write the profiles, whole.

    Raises:
        OSError: the file cannot be written.
    """
    fields = {name: asdict(profile) for name, profile in sorted(profiles.items())}
    write_secret(profiles_file(), json.dumps(fields, indent=2) + "\n")


def write_secret(path: Path, text: str) -> None:
    """Write or replace a file that only its owner may read, from its first moment on.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
