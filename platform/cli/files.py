"""How is a text file that a command was given read?"""

from pathlib import Path

from alcove.platform.core.errors import InvalidFieldError

__all__ = ["read_text"]


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
