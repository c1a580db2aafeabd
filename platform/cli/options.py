"""Lets a command take a group of options as one parameter, and defines options that several commands have."""

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, get_type_hints

import typer

__all__ = ["CommandGroup", "MethodName"]

MethodName = Annotated[
    str | None, typer.Option("--method", metavar="NAME", help="One of the program's methods; else the first.")
]


class CommandGroup(typer.Typer):
    """A `Typer` whose commands may take dataclasses: the fields of one are options of the command, in its place.

    Its help is plain text in at most 80 columns: names are whole, flags take no value, and a pipe gets the same.
    """

    def __init__(self, **settings: Any) -> None:
        defaults: dict[str, Any] = {"rich_markup_mode": None, "add_completion": False}
        super().__init__(**(defaults | settings))

    def add_typer(self, typer_instance: typer.Typer, *, name: str) -> None:  # type: ignore[override]  # a name only
        """Add a group of commands; where groups are listed its help is shown whole."""
        super().add_typer(typer_instance, name=name, short_help=str(typer_instance.info.help or ""))

    def command(  # type: ignore[override]  # commands here have a name and settings only
        self,
        name: str | None = None,
        *,
        context_settings: dict[str, Any] | None = None,
        hidden: bool = False,
    ) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Return a decorator that adds a command and returns the function as it was."""

        def add(function: Callable[..., None]) -> Callable[..., None]:
            first = inspect.cleandoc(function.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
            register = typer.Typer.command(
                self, name, context_settings=context_settings, hidden=hidden, short_help=first
            )
            register(_flatten(function))
            return function

        return add


def _flatten(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function of the same parameters, with those of dataclasses replaced by the fields."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    if not groups:
        return function
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        group = groups.get(parameter.name)
        if group is None:
            parameters.append(parameter.replace(annotation=hints[parameter.name]))
            continue
        types = get_type_hints(group, include_extras=True)
        parameters += [
            inspect.Parameter(each.name, parameter.kind, default=each.default, annotation=types[each.name])
            for each in fields(group)
        ]

    def call(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{each.name: given.pop(each.name) for each in fields(group)})
        function(**given)

    call.__name__, call.__doc__ = function.__name__, function.__doc__
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # inspect reads it
    return call
