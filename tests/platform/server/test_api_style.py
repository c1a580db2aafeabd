"""The .proto files: buf's STANDARD rules as far as they concern us, and a comment on everything."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alcove.api.audit.v1 import audit_pb2
from alcove.api.experiment.v1 import experiment_pb2
from alcove.api.metric.v1 import metric_pb2
from alcove.api.planner.v1 import planner_pb2
from alcove.api.policy.v1 import policy_pb2
from alcove.api.registry.v1 import registry_pb2
from alcove.api.rollout.v1 import rollout_pb2
from alcove.api.session.v1 import session_pb2
from alcove.api.status.v1 import status_pb2

FILES = [
    module.DESCRIPTOR
    for module in (
        registry_pb2,
        rollout_pb2,
        experiment_pb2,
        policy_pb2,
        metric_pb2,
        planner_pb2,
        audit_pb2,
        session_pb2,
        status_pb2,
    )
]
# The answer holds a secret, which is not kept to be given again; ending a session twice ends it.
NOT_KEPT = {"CreateSession", "DeleteSession", "DeleteOtherSessions", "BeginSignIn"}
DECLARATION = re.compile(
    r"^\s*(message|enum|service|rpc|oneof)\s+\w+"
    r"|^\s*(repeated |optional )?[\w.]+\s+\w+ = \d+;"
    r"|^\s*[A-Z][A-Z0-9_]+ = \d+;"
)


def source(file: Any, repository: Path) -> list[str]:
    """The lines of a .proto file."""
    name: str = file.name
    return (repository / "proto" / name).read_text(encoding="utf-8").splitlines()


def test_every_proto_file_is_examined(repository: Path) -> None:
    """A new file must join this list."""
    found = {path.relative_to(repository / "proto").as_posix() for path in (repository / "proto").rglob("*.proto")}
    assert found == {file.name for file in FILES}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_everything_has_a_comment(file: Any, repository: Path) -> None:
    """Each message, field, value, oneof and RPC is explained in the line above it."""
    lines = source(file, repository)
    bare = [
        f"{file.name}:{number + 1}: {line.strip()}"
        for number, line in enumerate(lines)
        if DECLARATION.search(line) and not lines[number - 1].strip().startswith("//")
    ]
    assert not bare, "\n".join(bare)


SNAKE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
PASCAL = re.compile(r"([A-Z][a-z0-9]*)+")


def walk_messages(parent: Any, children: str = "message_types_by_name") -> Iterator[Any]:
    """Give each message of a file, and those inside it; entries of maps are the compiler's."""
    for message in getattr(parent, children).values():
        if not message.GetOptions().map_entry:
            yield message
            yield from walk_messages(message, "nested_types_by_name")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_names_and_places_follow_the_rules(file: Any) -> None:
    """Package is folder and ends in a version; services end in Service; zero values are unspecified and prefixed."""
    assert file.package.replace(".", "/") == file.name.rpartition("/")[0]
    assert re.fullmatch(r"alcove\.api\.[a-z]+\.v[0-9]+", file.package)
    messages = list(walk_messages(file))
    for enum in [enum for scope in (file, *messages) for enum in scope.enum_types_by_name.values()]:
        prefix = re.sub(r"(?<!^)(?=[A-Z])", "_", enum.name).upper() + "_"
        assert all(value.name.startswith(prefix) and SNAKE.fullmatch(value.name.lower()) for value in enum.values)
        assert enum.values_by_number[0].name == prefix + "UNSPECIFIED"
        assert not enum.GetOptions().allow_alias
    for message in messages:
        assert PASCAL.fullmatch(message.name)
        assert all(SNAKE.fullmatch(part.name) for part in (*message.fields, *message.oneofs) if part.name[0] != "_")
    seen: set[str] = set()
    for service in file.services_by_name.values():
        assert service.name.endswith("Service")
        for method in service.methods:
            assert PASCAL.fullmatch(method.name)
            assert (method.input_type.name, method.output_type.name) == (
                f"{method.name}Request",
                f"{method.name}Response",
            )
            assert not seen & {method.input_type.name, method.output_type.name}
            seen |= {method.input_type.name, method.output_type.name}
            if method.name not in NOT_KEPT and not method.name.startswith(("Get", "List", "Plan", "Upload", "Watch")):
                assert method.input_type.fields_by_name["request_id"].number == 1
