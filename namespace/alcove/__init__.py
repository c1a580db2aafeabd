"""Holds the packages of every alcove distribution, and their version.

The packages may lie in several folders, such as those of an environment and of the one that it extends: all of them
are searched.
"""

from pkgutil import extend_path

__all__ = ["__version__"]

__version__ = "0.1.0"
"""Of the distribution, as in pyproject.toml."""
__path__ = extend_path(__path__, __name__)
