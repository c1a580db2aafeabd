"""Writes an experiment's results to a file: a page, the cells as a table, or a notebook that computes them again.

.html      one page with pictures inside, which loads nothing
.csv       the cells of the reports: counts, estimates, noise
.parquet   the same; needs pyarrow (the extra `parquet`)
.ipynb     a notebook with the cells inside and code that computes the shown numbers from them
"""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from alcove.platform.cli.report._files import write_whole
from alcove.platform.cli.report.cells import parquet_of, table_of
from alcove.platform.cli.report.notebook import notebook_of
from alcove.platform.cli.report.page import page_of
from alcove.platform.domain.errors import InvalidFieldError

if TYPE_CHECKING:
    from alcove.platform.client import ExperimentReport

__all__ = ["validate_path", "write_report"]

SUFFIXES: Final = (".html", ".csv", ".parquet", ".ipynb")


def validate_path(path: Path) -> None:
    """Raise where no report can be written to `path`, before anything is asked of a server.

    Raises:
        InvalidFieldError: its name ends otherwise, its folder is not there, or a library is missing.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise InvalidFieldError("--export", f"a name that ends in {', '.join(SUFFIXES)}", path.name)
    if not path.absolute().parent.is_dir():
        raise InvalidFieldError("--export", "in a folder that is there", str(path.parent))
    if path.suffix.lower() == ".parquet" and find_spec("pyarrow") is None:
        raise InvalidFieldError(
            "--export", ".csv, or with pyarrow (pip install 'alcove-platform[parquet]') .parquet", path.name
        )


def write_report(path: Path, report: "ExperimentReport") -> None:
    """Write the file whole or not at all; `report` with its cells.

    Raises:
        InvalidFieldError: as `validate_path`, the report came without its cells, or a bandit's estimates, which go by
            window, are asked for as a notebook.
        OSError: the file cannot be written.
    """
    validate_path(path)
    if path.suffix.lower() == ".ipynb" and report.results.allocation is not None:
        bound = (
            ".html, .csv or .parquet where a bandit moves shares: the notebook has the cells of all windows together"
        )
        raise InvalidFieldError("--export", bound, path.name)
    make = {
        ".html": lambda: page_of(report).encode(),
        ".csv": lambda: table_of(report).encode(),
        ".parquet": lambda: parquet_of(report),
        ".ipynb": lambda: notebook_of(report).encode(),
    }
    write_whole(path, make[path.suffix.lower()]())
