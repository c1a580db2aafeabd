"""Importing the registry loads no heavy library, and the device's side loads nothing of the server's."""

import subprocess
import sys

import alcove.registry
import alcove.registry.policy
import pytest

HEAVY = ("tuf", "securesystemslib", "pydantic", "cryptography", "obstore", "torch", "grpc", "alcove.runtime")


@pytest.mark.parametrize("name", ["alcove.registry", "alcove.registry.policy", "alcove.registry.errors"])
def test_importing_the_package_loads_nothing_heavy(name: str) -> None:
    """In a fresh interpreter."""
    code = f"import sys, {name}; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_device_side_loads_no_server_side() -> None:
    """Client and policy need neither obstore nor the runtime nor any key code of the ceremony."""
    names = ("obstore", "torch", "grpc", "alcove.registry.keys", "alcove.registry.repository")
    code = f"import sys, alcove.registry.client; print([name for name in {names} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("package", [alcove.registry, alcove.registry.policy])
def test_every_public_name_is_there_and_no_other(package: object) -> None:
    """`__all__` and the lazy table agree; an unknown name is an AttributeError."""
    names = package.__all__  # type: ignore[attr-defined]
    assert sorted(names) == sorted(package._HOME) == list(names)  # type: ignore[attr-defined]
    for name in names:
        assert getattr(package, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = package.nonsense  # type: ignore[attr-defined]
