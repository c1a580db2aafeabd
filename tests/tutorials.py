"""Runs the snippets and commands of a page as they stand."""

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
SERVER = "https://models.example.org"
"""The server that pages name; tests put one of this machine in its place."""


def read_blocks(page: Path, language: str) -> list[str]:
    """The code blocks of a page in one language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def run_tutorial(page: Path, folder: Path, programs: Path, server_programs: Path) -> None:
    """Write a page's Python files into a folder and run its commands there, servers on ports that the system chose.

    Args:
        page: whose Python begins with the name of its file.
        folder: empty.
        programs: folder of programs of the environment that the page is tried in.
        server_programs: the same, for the block of commands that starts the server.
    """
    for snippet in read_blocks(page, "python"):
        name = re.match(r"# (\w+\.py)\n", snippet)
        assert name, "Python of this page is a file"
        (folder / name[1]).write_text(snippet, encoding="utf-8")
    environment = {**os.environ, "ALCOVE": str(REPOSITORY)}
    servers: list[subprocess.Popen[str]] = []
    try:
        for block in read_blocks(page, "sh"):
            lines = [line for line in block.splitlines() if line.strip()]
            starts_server = any(line.endswith("&") for line in lines)
            environment["PATH"] = f"{server_programs if starts_server else programs}:{os.environ['PATH']}"
            for line in lines:
                if line.endswith("&"):
                    words = [*shlex.split(line.removesuffix("&")), "--grpc-port", "0", "--http-port", "0"]
                    servers.append(
                        subprocess.Popen(
                            ["bash", "-c", f"exec {shlex.join(words)}"],
                            cwd=folder,
                            env=environment,
                            stdout=subprocess.PIPE,
                            text=True,
                        )
                    )
                    output = servers[-1].stdout
                    assert output is not None
                    environment["ALCOVE_SERVER"] = json.loads(output.readline())["grpc"]
                    continue
                done = subprocess.run(
                    ["bash", "-c", line], cwd=folder, env=environment, check=False, capture_output=True, text=True
                )
                assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    finally:
        for server in servers:
            server.terminate()
            server.wait(60)
            if server.stdout is not None:
                server.stdout.close()
    assert servers
