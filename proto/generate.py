"""Generate `alcove.api.<service>.v1` from the .proto files: `generate.py SOURCE OUTPUT [--stubs]`.

With `--stubs` only the type stubs are written (mypy-protobuf), for type checkers.
"""

import subprocess
import sys
from pathlib import Path


def generate(source: Path, output: Path, *, stubs: bool) -> None:
    """Write messages and services of every .proto below `source` to `output`, as importable packages."""
    output.mkdir(parents=True, exist_ok=True)
    files = sorted(str(path.relative_to(source)) for path in source.rglob("*.proto"))
    if stubs:
        programs = Path(sys.executable).parent
        flags = [f"--plugin=protoc-gen-{name}={programs}/protoc-gen-{name}" for name in ("mypy", "mypy_grpc")]
        flags += [f"--mypy_out={output}", f"--mypy_grpc_out={output}"]
    else:
        flags = [f"--python_out={output}", f"--grpc_python_out={output}"]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"-I{source}", *flags, *files], cwd=source, check=True)
    # Every level below alcove/ is a regular package; alcove itself is a namespace.
    for path in (output / "alcove").rglob("*_pb2*.py*"):
        for folder in path.parents:
            if folder.name == "alcove":
                break
            (folder / ("__init__.pyi" if stubs else "__init__.py")).touch()


if __name__ == "__main__":
    generate(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve(), stubs="--stubs" in sys.argv[3:])
