"""Defines actions: what a button does, who may, and what it asks before.

An action is offered to those whose role may do it where the state allows it.  That is a courtesy: the server refuses
whatever is forged.  A form carries a request id, so that sending it twice does it once.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from alcove.platform.client import PlatformClient
from alcove.platform.domain.permissions import PERMISSIONS
from alcove.platform.domain.principal import Role

__all__ = ["Action", "Field", "Form", "FormError", "Offer", "may", "offer", "read_form"]


class FormError(Exception):
    """A form is not complete.

    Attributes:
        field: its name.
        problem: what is wrong, a sentence.
    """

    def __init__(self, field: str, problem: str) -> None:
        self.field, self.problem = field, problem
        super().__init__(problem)


@dataclass(frozen=True)
class Field:
    """A field of a form, besides the reason.

    Attributes:
        name: of the field.
        title: what people read.
        options: (value, words) to choose from; (): a text.
        pattern: what a browser lets pass; "": any text.
        help: what may be written there.
        is_required: whether it must not be empty.
    """

    name: str
    title: str
    options: Sequence[tuple[str, str]] = ()
    pattern: str = ""
    help: str = ""
    is_required: bool = True


@dataclass(frozen=True)
class Form:
    """What a person has sent.

    Attributes:
        request_id: names the mutation.
        reason: why; "" where none was asked for.
        values: of the other fields, hidden ones among them.
    """

    request_id: str
    reason: str
    values: Mapping[str, str]


@dataclass(frozen=True)
class Action:
    """What a button does.

    Attributes:
        name: in addresses.
        title: on the button, a verb.
        rpc: full name of the call that it makes, as the permission table has it.
        effect: what it does to devices and people, a sentence.
        done: what the page says afterwards.
        run: makes the call.
        needs_reason: whether it asks why.
        confirmation: words that must be typed before; "": none.
        fields: others that it asks for.
        is_grave: whether it cannot be undone.
        hidden: what its form carries unseen, by name, such as the etag of what the person saw.
    """

    name: str
    title: str
    rpc: str
    effect: str
    done: str
    run: Callable[[PlatformClient, Form], Any]
    needs_reason: bool = True
    confirmation: str = ""
    fields: Sequence[Field] = ()
    is_grave: bool = False
    hidden: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Offer:
    """An action on a page, ready to be sent.

    Attributes:
        action: what it does.
        address: where its form goes.
        request_id: of this form.
        values: what was sent before and refused; {}: nothing.
        problem: why; "": it was not refused.
    """

    action: Action
    address: str
    request_id: str
    values: Mapping[str, str]
    problem: str = ""


def may(role: Role, rpc: str, team: str) -> bool:
    """Return whether a role may make a call about what `team` owns, as far as the table of permissions says."""
    permission = PERMISSIONS.get(rpc)
    return permission is not None and role.name in permission.roles and role.team in (None, team)


def offer(action: Action, address: str, values: Mapping[str, str] | None = None, problem: str = "") -> Offer:
    """Return an action with a new request id, or with the values of a form that was refused."""
    given = values or {}
    return Offer(action, address, given.get("request_id") or uuid.uuid4().hex, given, problem)


def read_form(action: Action, fields: Mapping[str, str]) -> Form:
    """Return what a person has sent.

    Raises:
        FormError: the reason, the confirmation or what the form carries unseen is missing.
    """
    reason = fields.get("reason", "").strip()
    if action.needs_reason and not reason:
        raise FormError("reason", "Say why: the reason is kept in the audit log.")
    if action.confirmation and fields.get("confirmation", "").strip() != action.confirmation:
        raise FormError("confirmation", f"Type “{action.confirmation}” to confirm.")
    values = {each.name: fields.get(each.name, "").strip() for each in action.fields}
    for name in action.hidden:
        values[name] = fields.get(name, "")
        if not values[name]:
            raise FormError(name, "This form is not whole: load the page again.")
    return Form(fields.get("request_id", ""), reason, values)
