"""The stubs `_native.pyi` match the native modules in names, parameters, defaults and plain types."""

import ast
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from alcove.privacy import _native as privacy_native
from alcove.runtime import _native as runtime_native

PLAIN = {"int", "str", "bytes", "bool", "None", "list", "tuple"}


MODULES: dict[str, ModuleType] = {"runtime": runtime_native, "privacy": privacy_native}


@pytest.fixture(params=MODULES)
def native(request: pytest.FixtureRequest) -> ModuleType:
    """A native module."""
    return MODULES[request.param]


@pytest.fixture
def stub(repository: Path, native: ModuleType) -> ast.Module:
    """Its stub, parsed."""
    (package,) = (name for name, module in MODULES.items() if module is native)
    return ast.parse((repository / package / "_native.pyi").read_text(encoding="utf-8"))


def signature_of(function: Any) -> ast.FunctionDef:
    """What the binding says about one of its functions."""
    ((text, _, defaults),) = function.__nb_signature__
    for index, value in enumerate(defaults or ()):
        text = text.replace(f"\\{index}", repr(value))
    definition = ast.parse(text.replace("def (", "def _(") + ": ...").body[0]
    assert isinstance(definition, ast.FunctionDef)
    return definition


def outer(annotation: ast.expr | None) -> str:
    """The annotation without its parameters and its module."""
    if isinstance(annotation, ast.Subscript):
        annotation = annotation.value
    return ast.unparse(annotation).rpartition(".")[2] if annotation else ""


def assert_same(written: ast.FunctionDef, bound: ast.FunctionDef, where: str) -> None:
    """Names and order of parameters and defaults agree, and each type that both spell plainly."""
    for ours, theirs in [(written.args, bound.args)]:
        assert [a.arg for a in ours.args] == [a.arg for a in theirs.args], where
        assert (ours.vararg and ours.vararg.arg) == (theirs.vararg and theirs.vararg.arg), where
        assert [ast.unparse(d) for d in ours.defaults] == [ast.unparse(d) for d in theirs.defaults], where
        for one, other in zip(ours.args, theirs.args, strict=True):
            if {outer(one.annotation), outer(other.annotation)} <= PLAIN:
                assert outer(one.annotation) == outer(other.annotation), f"{where}: {one.arg}"
    if outer(bound.returns) != "object":
        assert outer(written.returns) == outer(bound.returns), where


def test_stub_has_every_name_of_the_module_and_no_other(native: ModuleType, stub: ast.Module) -> None:
    """What a type checker sees is what an import gives."""
    written = {node.name for node in stub.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    assert written == {name for name in dir(native) if not name.startswith("__")}


def test_stub_functions_take_and_return_what_the_module_says(native: ModuleType, stub: ast.Module) -> None:
    """Parameters, defaults and plain types of each function."""
    functions = [node for node in stub.body if isinstance(node, ast.FunctionDef)]
    for function in functions:
        assert_same(function, signature_of(getattr(native, function.name)), function.name)
        assert ast.get_docstring(function), function.name


def test_stub_classes_have_the_members_of_the_module(native: ModuleType, stub: ast.Module) -> None:
    """Properties and methods of each class."""
    for node in [node for node in stub.body if isinstance(node, ast.ClassDef)]:
        members = vars(getattr(native, node.name))
        written = {m.name: m for m in node.body if isinstance(m, ast.FunctionDef)}
        special = {"__call__", *({"__init__"} & set(written))}
        assert set(written) == {name for name in members if not name.startswith("__") or name in special}, node.name
        for name, definition in written.items():
            bound = members[name]
            is_property = [ast.unparse(d) for d in definition.decorator_list] == ["property"]
            assert is_property == isinstance(bound, property), f"{node.name}.{name}"
            getter = signature_of(bound.fget if is_property else bound)
            getter.args.args = getter.args.args or [ast.arg("self")]
            assert_same(definition, getter, f"{node.name}.{name}")
            assert ast.get_docstring(definition), f"{node.name}.{name}"
