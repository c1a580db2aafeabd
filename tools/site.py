"""Adds generated reference pages and the pages outside docs/ to the documentation site; keeps it self-contained.

mkdocs loads this module as a hook (`mkdocs.yml`). The pages that it adds exist only in build/site:

    reference/python.md     the public names of each package, from their docstrings
    reference/c.md          the declarations of alcove.h with their comments
    reference/grpc.md       the services and messages of proto/ with their comments
    reference/commands.md   the help of every `alcove` command
    project/                the pages at the root of the repository, and the features' model cards
"""

import importlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

import typer
from alcove.platform.cli.main import app_of
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = (
    "alcove.sdk",
    "alcove.runtime",
    "alcove.privacy",
    "alcove.features",
    "alcove.registry",
    "alcove.registry.policy",
    "alcove.platform.client",
    "alcove.platform.stats",
)
OUTSIDE = ("*.md", "features/*/CARD.md", "kernels/**/README.md")
LINK = re.compile(r"\[([^\]]*)\]\(([^)#:\s]+)(#[^)\s]*)?\)")
RESOURCE = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?(?:https?:)?//|<link\b[^>]*\bhref=\"?(?:https?:)?//"
)


def write_python() -> str:
    """The page of the Python packages: mkdocstrings renders each public name."""
    parts = ["# Python\n\nThe public names of each package. Those of `alcove.sdk` are all that an app needs.\n"]
    for package in PACKAGES:
        names = importlib.import_module(package).__all__
        parts.append(f"## {package}\n")
        parts += [f"::: {package}.{name}\n    options: {{heading_level: 3}}\n" for name in sorted(names)]
    return "\n".join(parts)


def write_c(header: str) -> str:
    """The page of the C interface: each comment of the header, and under it what it describes."""
    opening, _, rest = header.partition("*/")
    parts = ["# C\n", read_comment(opening + "*/"), "\n## Declarations\n"]
    body = rest[rest.index("#define ALCOVE_ABI_VERSION") : rest.rindex("#ifdef __cplusplus")]
    for block in re.split(r"\n(?=/\*)|\n\n", body):
        comment, code = re.match(r"((?:/\*.*?\*/\n)?)(.*)", block.strip() + "\n", re.DOTALL).groups()  # type: ignore[union-attr]
        parts += [read_comment(comment), f"\n```c\n{code.strip()}\n```\n" if code.strip() else ""]
    return "\n".join(parts)


def read_comment(comment: str) -> str:
    """The text of a C comment, as Markdown."""
    lines = comment.strip().removeprefix("/*").removesuffix("*/").splitlines()
    return escape("\n".join(re.sub(r"^ \* ?", "", line).strip() for line in lines))


def escape(text: str) -> str:
    """Keep what Markdown would take as markup."""
    return re.sub(r"([*_<>|\[\]])", r"\\\1", text)


def read_protos() -> list[FileDescriptorProto]:
    """Our .proto files as the compiler reads them, with their comments."""
    paths = sorted((ROOT / "proto").rglob("*.proto"))
    includes = [f"-I{ROOT / 'proto'}", f"-I{resources('grpc_tools') / '_proto'}"]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "set"
        options = ["--include_source_info", f"--descriptor_set_out={out}"]
        subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *includes, *options, *paths], check=True)
        return list(FileDescriptorSet.FromString(out.read_bytes()).file)


def write_grpc(protos: list[FileDescriptorProto]) -> str:
    """The page of the services: each method, message and enum with its comment."""
    parts = [
        "# gRPC\n\nWhat product teams and operators call; devices read files and post reports, and call none of it.\n"
    ]
    for proto in protos:
        comments = {
            tuple(place.path): place.leading_comments or place.trailing_comments
            for place in proto.source_code_info.location
        }
        parts.append(f"## {proto.package}\n\n{escape(comments.get((2,), ''))}")
        for i, service in enumerate(proto.service):
            rows = [
                (
                    f"`{method.name}`",
                    f"`{short(method.input_type)}` → `{short(method.output_type)}`",
                    comments.get((6, i, 2, j), ""),
                )
                for j, method in enumerate(service.method)
            ]
            parts += [
                f"### {service.name}\n",
                escape(comments.get((6, i), "")),
                *table(("method", "request and response", "what it does"), rows),
            ]
        for i, message in enumerate(proto.message_type):
            parts += write_message(message, (4, i), comments)
        for i, enum in enumerate(proto.enum_type):
            parts += write_enum(enum, (5, i), comments)
    return "\n".join(parts)


def write_message(
    message: DescriptorProto, path: tuple[int, ...], comments: dict[tuple[int, ...], str]
) -> Iterator[str]:
    """The table of a message's fields, and of the enums and messages inside it."""
    if message.options.map_entry:
        return
    rows = [
        (f"`{field.name}`", f"`{type_of(field)}`", str(field.number), comments.get((*path, 2, i), ""))
        for i, field in enumerate(message.field)
    ]
    yield f"#### {message.name}\n\n{escape(comments.get(path, ''))}"
    yield from table(("field", "type", "number", "meaning"), rows)
    for i, nested in enumerate(message.nested_type):
        yield from write_message(nested, (*path, 3, i), comments)
    for i, enum in enumerate(message.enum_type):
        yield from write_enum(enum, (*path, 4, i), comments)


def write_enum(enum: EnumDescriptorProto, path: tuple[int, ...], comments: dict[tuple[int, ...], str]) -> Iterator[str]:
    """The table of an enum's values."""
    rows = [
        (f"`{value.name}`", str(value.number), comments.get((*path, 2, i), "")) for i, value in enumerate(enum.value)
    ]
    yield f"#### {enum.name}\n\n{escape(comments.get(path, ''))}"
    yield from table(("value", "number", "meaning"), rows)


def short(name: str) -> str:
    """A type's name without our package."""
    return re.sub(r"^\.(alcove\.api\.\w+\.v1\.)?", "", name)


def type_of(field: FieldDescriptorProto) -> str:
    """The type as the .proto file writes it."""
    name = short(field.type_name) or FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    return f"repeated {name}" if field.label == FieldDescriptorProto.LABEL_REPEATED else name


def table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """A Markdown table; nothing for no rows."""
    if rows:
        yield f"\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}"
        for *first, comment in rows:
            yield f"| {' | '.join(first)} | {escape(' '.join(comment.split()))} |"
        yield ""


def write_commands() -> str:
    """The page of the command line: each command's help, arguments and options."""
    parts = ["# Command line\n\nEvery command as `--help` shows it.\n"]

    def walk(command: Any, name: str) -> None:
        parts.append(f"## {name}\n\n{escape(command.help or '')}\n")
        rows = [
            (
                ", ".join(f"`{text}`" for text in (parameter.opts + parameter.secondary_opts)),
                getattr(parameter, "help", "") or "",
            )
            for parameter in command.params
            if "--help" not in parameter.opts
        ]
        parts.extend(table(("option or argument", "meaning"), rows))
        for child, nested in getattr(command, "commands", {}).items():
            walk(nested, f"{name} {child}")

    walk(typer.main.get_command(app_of(None)), "alcove")
    return "\n".join(parts)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are generated and those outside docs/."""
    header = (ROOT / "runtime/native/include/alcove.h").read_text("utf-8")
    pages = {
        "python": write_python(),
        "c": write_c(header),
        "grpc": write_grpc(read_protos()),
        "commands": write_commands(),
    }
    for name, text in pages.items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    for path in sorted(path for pattern in OUTSIDE for path in ROOT.glob(pattern)):
        files.append(File.generated(config, f"project/{path.relative_to(ROOT)}", abs_src_path=str(path)))
    return files


def site_place(path: Path, files: Files) -> str | None:
    """Where a file of the repository is in the site; None where it is not."""
    for folder, prefix in ((ROOT / "docs", ""), (ROOT, "project/")):
        if path.is_relative_to(folder):
            uri = prefix + path.relative_to(folder).as_posix()
            if files.get_file_from_path(uri):
                return uri
    return None


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - a hook
    """Lead links to files of the repository to their place in the site; those that have none become text."""
    uri = page.file.src_uri
    source = ROOT / uri.removeprefix("project/") if uri.startswith("project/") else ROOT / "docs" / uri
    if uri.startswith("reference/") and not source.exists():
        return markdown

    def lead(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        path = Path(os.path.normpath(source.parent / target))
        if not path.exists():
            return match[0]  # mkdocs reports it
        place = site_place(path, files) or site_place(path / "README.md", files)
        return text if place is None else f"[{text}]({os.path.relpath(place, Path(uri).parent)}{anchor})"

    return LINK.sub(lead, markdown)


def on_post_build(config: MkDocsConfig) -> None:
    """Refuse a site that loads anything from another host."""
    for path in sorted(Path(config.site_dir).rglob("*.html")):
        found = RESOURCE.search(path.read_text("utf-8"))
        if found:
            raise PluginError(f"{path.name} loads from another host: {found[0]}")
