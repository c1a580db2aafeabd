"""Reads the files that a command was given, and gives the default places of others."""

from pathlib import Path

from alcove.platform.domain.errors import InvalidFieldError

__all__ = ["online_folder", "read_secret", "read_text"]


def online_folder(data_dir: Path) -> Path:
    """Return where the server's keys are by default: beside its data, so not in its back-ups."""
    place = data_dir.resolve()
    return place.with_name(f"{place.name}-keys")


def read_secret(path: Path) -> str:
    """Return the text of a UTF-8 file that is for its owner alone.

    Raises:
        KeyFileError: it is open to others, or is not there.
        InvalidFieldError: it is not UTF-8.
        OSError: it cannot be read.
    """
    from alcove.registry.keys import check_private_file  # noqa: PLC0415 - loads TUF

    check_private_file(path)
    return read_text(path)


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file.

    Raises:
        InvalidFieldError: it is not UTF-8.
        OSError: it cannot be read.
    """
    data = path.read_bytes()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidFieldError(str(path), "UTF-8 text", data[error.start : error.end]) from None
