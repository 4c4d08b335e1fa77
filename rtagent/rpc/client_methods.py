"""The methods of a client, made from a method table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import Parameter, Signature
from typing import Any, Protocol

import msgspec
from oslo_context.context import RequestContext

from rtagent.rpc.method import Method


class Api(Protocol):
    """A client whose methods this module makes."""

    def _call(
        self, method: Method, context: RequestContext, timeout: float | None, arguments: Any
    ) -> Any: ...


def add_methods(api: type[Api], methods: Iterable[Method]) -> None:
    """Add a method to the class for each one of the table that has callers."""
    for method in methods:
        setattr(api, method.name, _forward(method, api.__name__))


def _signature(method: Method) -> Signature:
    """``self, context``, the arguments of a method, ``timeout``."""
    fields = {field.name: field for field in msgspec.structs.fields(method.arguments)}
    made = {"operation_id"} if method.takes_operation_id else set()
    required = [n for n, field in fields.items() if field.required and n not in made]
    by_position = (*required, *method.by_position)
    parameters = [
        Parameter("self", Parameter.POSITIONAL_ONLY),
        Parameter("context", Parameter.POSITIONAL_OR_KEYWORD, annotation=RequestContext),
    ]
    for name in (*by_position, *(name for name in fields if name not in by_position)):
        parameters.append(
            Parameter(
                name,
                Parameter.POSITIONAL_OR_KEYWORD if name in by_position else Parameter.KEYWORD_ONLY,
                default=Parameter.empty if name in required else None,
                annotation=fields[name].type,
            )
        )
    parameters.append(
        Parameter("timeout", Parameter.KEYWORD_ONLY, default=None, annotation=float | None)
    )
    return Signature(parameters)


def _forward(method: Method, api_name: str) -> Callable[..., Any]:
    """The client's function for a method."""
    signature = _signature(method)

    def forward(*positional: Any, **named: Any) -> Any:
        arguments = signature.bind(*positional, **named).arguments
        api, context = arguments.pop("self"), arguments.pop("context")
        return api._call(method, context, arguments.pop("timeout", None), arguments)

    forward.__name__, forward.__qualname__ = method.name, f"{api_name}.{method.name}"
    forward.__doc__ = f"{method.effect}\n\n:raises: {', '.join(method.all_errors)}"
    forward.__signature__ = signature  # type: ignore[attr-defined]
    return forward
