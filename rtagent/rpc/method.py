"""Method: the declaration of one method of the RPC API.

A method is declared once, where it is served: by `rpc_method` on a function of one of the endpoint
groups. The method table, the JSON Schemas, the reference and the Python client are generated from
the declaration.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, get_type_hints

from rtagent.model.base import Document, Name, Uuid, Value

#: Errors that any call may return; the last two while another agent has, or may have, the same host
#: name.
COMMON_ERRORS = ("InvalidRequest", "NodeNotFound", "DuplicateHost", "NodeNotReady")
#: Errors that a flavor and an image may cause, in addition to `InvalidRequest`.
FLAVOR_ERRORS = (
    *("PropertyInvalid", "PropertyConflict", "FlavorImageConflict"),
    *("InvalidPciRequest", "PciRequestAliasNotDefined"),
)
#: Errors that any call that changes state may return.
CHANGE_ERRORS = ("ClaimConflict", "StoreUnavailable", "TrackerBusy")
#: Errors that a call that creates a claim from a flavor may return.
CREATION_ERRORS = (
    *FLAVOR_ERRORS,
    *("ComputeResourcesUnavailable", "ClaimExpired", "NodeNotReady", "StoreRestored"),
    *("HypervisorUnavailable", "AllocationMismatch", "AllocationNotWritten"),
)
#: Errors that a later call for a claim may return.
CLAIM_ERRORS = ("ClaimNotFound", "ClaimExpired", "IllegalTransition")
#: The error that a call of a slow method may return.
SLOW_ERRORS = ("TooManyRequests",)
#: Errors that a call may return if the caller may start the domain after it.
READY_ERRORS = ("CpuPowerFailed", "TooManyRequests")

_Handler = TypeVar("_Handler", bound=Callable[..., Any])


class Arguments(Document, frozen=True, kw_only=True):
    """The arguments of every method.

    :ivar node: the hypervisor_hostname that the caller expects; null: not checked.
    :ivar node_uuid: the uuid of the node that the caller means; null: not checked. Two machines may
        have one name by mistake, but not one uuid.
    """

    node: Name | None = None
    node_uuid: Uuid | None = None


class Change(Arguments, frozen=True, kw_only=True):
    """The arguments of every method that changes state.

    :ivar operation_id: chosen by the caller, and the same in every repetition of the call.
    """

    operation_id: Uuid


class Method(Value, frozen=True, kw_only=True):
    """One method.

    :ivar effect: the effect of the method, for operators and for authors of conductors.
    :ivar arguments: the document that its arguments form.
    :ivar reply: the type of its reply; None: the reply is null.
    :ivar errors: names of its errors, besides those that every call may have.
    :ivar by_position: optional arguments that the Python client also takes by position, after the
        required ones.
    :ivar slow: a call may wait for Placement, libvirt or the service registry; `CallLimit` bounds
        how many are served at once.
    """

    name: str
    effect: str
    arguments: type[Arguments]
    reply: type[Value] | None = None
    errors: tuple[str, ...] = ()
    by_position: tuple[str, ...] = ()
    slow: bool = False

    @property
    def changes(self) -> bool:
        """Whether the method changes state and therefore takes an operation id."""
        return "operation_id" in self.arguments.__struct_fields__

    @property
    def all_errors(self) -> tuple[str, ...]:
        """The names of the errors of `rtagent.errors` that the method may return."""
        common = (*COMMON_ERRORS, *CHANGE_ERRORS) if self.changes else COMMON_ERRORS
        slow = SLOW_ERRORS if self.slow else ()
        return tuple(dict.fromkeys((*common, *slow, *self.errors)))


def rpc_method(
    errors: tuple[str, ...] = (), by_position: tuple[str, ...] = (), *, slow: bool = False
) -> Callable[[_Handler], _Handler]:
    """Declare a function of an endpoint group as a method of the API.

    Its docstring is the method's effect; the annotations of its parameter ``arguments`` and of its
    result are the types of arguments and reply. A method that changes state also takes the `Call`.

    :param errors: see `Method`. :param by_position: see `Method`. :param slow: see `Method`.
    """

    def declare(handler: _Handler) -> _Handler:
        types = get_type_hints(handler)
        handler.rpc_method = Method(  # type: ignore[attr-defined]
            name=handler.__name__,
            effect=" ".join(str(handler.__doc__).split()),
            arguments=types["arguments"],
            reply=None if types["return"] is type(None) else types["return"],
            errors=errors,
            by_position=by_position,
            slow=slow,
        )
        return handler

    return declare


def declared(group: type) -> Iterator[Method]:
    """The methods that a class declares, in the order of its source."""
    for function in vars(group).values():
        if inspect.isfunction(function) and hasattr(function, "rpc_method"):
            yield function.rpc_method
