"""Method: the declaration of one method of the RPC API.

A method is declared once, where it is served: by `rpc_method` on a function. The method table, the
JSON Schemas, the reference and the Python client are generated from the declaration.
"""

from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from types import ModuleType
from typing import Any, Protocol, get_type_hints

import msgspec
from oslo_context.context import RequestContext

from rtagent.model.base import Converter, Document, Uuid, Value
from rtagent.model.request import Arguments
from rtagent.rpc.roles import ANY, OPERATOR

#: Errors that any call may return; the last one if its caller makes too many calls.
COMMON_ERRORS = ("InvalidRequest", "SignatureInvalid", "NotAuthorized", "TooManyRequests")
#: Errors that any call of an agent may return; the last two while another agent has, or may have,
#: the same host name.
AGENT_ERRORS = ("NodeNotFound", "DuplicateHost", "NodeNotReady")
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
    *("HypervisorUnavailable", "AllocationMismatch", "AllocationNotWritten", "NodeDraining"),
)
#: Errors that a later call for a claim may return.
CLAIM_ERRORS = ("ClaimNotFound", "ClaimExpired", "IllegalTransition")
#: Errors that a call may return if the caller may start the domain after it.
READY_ERRORS = ("CpuPowerFailed",)
#: How many calls of each slow method are served at once. All slow methods, and the calls that wait
#: for host CPUs (`rtagent.service.power.SETTLING`), together leave a quarter of the threads to the
#: others.
SLOW_CALLS = 3


class Change(Arguments, frozen=True, kw_only=True):
    """The arguments of every method that changes state.

    :ivar operation_id: chosen by the caller, and the same in every repetition of the call.
    """

    operation_id: Uuid


class Method(Value, frozen=True, kw_only=True):
    """One method.

    :ivar handler: serves a call. Its parameters are what the server's methods use, the arguments,
        and, for a method that changes state, the `Call`, or a list of those of a batch.
    :ivar effect: the effect of the method, for operators and for authors of conductors.
    :ivar arguments: the document that its arguments form.
    :ivar converter: to that document.
    :ivar reply: the type of its reply; None: the reply is null.
    :ivar errors: names of its errors, besides those that every call may have.
    :ivar by_position: optional arguments that the Python client also takes by position, after the
        required ones.
    :ivar slow: a call may wait for Placement, libvirt or the service registry; `CallLimit` bounds
        how many are served at once. :ivar at_once: that number.
    :ivar cast: it is cast to every server of its topic, which sends no reply.
    :ivar batch_of: the method whose calls its argument ``claims`` lists; "": it is no batch.
    :ivar role: that the caller must have, see `rtagent.rpc.roles`.
    """

    name: str
    role: str
    handler: Callable[..., Any]
    effect: str
    arguments: type[Document]
    converter: Converter[Document]
    reply: type[Value] | None = None
    errors: tuple[str, ...] = ()
    by_position: tuple[str, ...] = ()
    slow: bool = False
    at_once: int = SLOW_CALLS
    cast: bool = False
    batch_of: str = ""

    @property
    def takes_operation_id(self) -> bool:
        """Whether a call has an operation id of its own."""
        fields = self.arguments.__struct_fields__
        return issubclass(self.arguments, Arguments) and "operation_id" in fields

    @property
    def changes(self) -> bool:
        """Whether the method changes state; its calls, or those that it lists, have operation
        ids."""
        return self.takes_operation_id or bool(self.batch_of)

    @property
    def for_one_server(self) -> bool:
        """Whether the signature of a call must name the server: a copy could have its effect at
        another server of the topic. Schedulers may select, and read, in place of each other.
        """
        if self.cast or self.role == ANY:
            return False
        return issubclass(self.arguments, Arguments) or self.role == OPERATOR

    @property
    def all_errors(self) -> tuple[str, ...]:
        """The names of the errors that the method may return."""
        of_agents = issubclass(self.arguments, Arguments)
        agent = AGENT_ERRORS if of_agents else ()
        change = CHANGE_ERRORS if self.changes else ()
        return tuple(dict.fromkeys((*COMMON_ERRORS, *agent, *change, *self.errors)))


def rpc_method(role: str, **options: Any) -> Callable[[Callable[..., Any]], Method]:
    """Declare a method of the API, whose handler is the function.

    Its docstring is the method's effect; the annotations of its parameter ``arguments`` and of its
    result are the types of arguments and reply.

    :param role: and :param options: see `Method`.
    """

    def declare(handler: Callable[..., Any]) -> Method:
        types = get_type_hints(handler)
        return Method(
            name=handler.__name__,
            role=role,
            handler=handler,
            effect=" ".join(str(handler.__doc__).split()),
            converter=Converter(types["arguments"]),
            arguments=types["arguments"],
            reply=None if types["return"] is type(None) else types["return"],
            **options,
        )

    return declare


class MethodTable(Value, frozen=True, kw_only=True):
    """The methods of one API. :ivar version: the newest one. :ivar methods: by name."""

    topic: str
    version: str
    methods: Mapping[str, Method]


def declared(*modules: ModuleType) -> Mapping[str, Method]:
    """The methods that modules declare, by name, in the order of their source."""
    declarations = (value for module in modules for value in vars(module).values())
    return {method.name: method for method in declarations if isinstance(method, Method)}


class ClientApi(Protocol):
    """A client whose methods this module makes."""

    def _call(
        self, method: Method, context: RequestContext, timeout: float | None, arguments: Any
    ) -> Any: ...


def add_methods(api: type[ClientApi], table: MethodTable) -> None:
    """Add a method to the class for each one of the table that has callers."""
    for method in table.methods.values():
        if not method.cast:
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
