"""What is told of a method of the RPC API."""

from __future__ import annotations

from rtagent.model.base import Document, Name, Uuid, Value

#: Errors that any call may be answered with.
COMMON_ERRORS = ("InvalidRequest", "NodeNotFound")
#: Errors that a flavor and an image may be answered with, beside `InvalidRequest` itself.
FLAVOR_ERRORS = (
    *("PropertyInvalid", "PropertyConflict", "FlavorImageConflict"),
    *("InvalidPciRequest", "PciRequestAliasNotDefined"),
)
#: Errors that any call that changes state may be answered with.
CHANGE_ERRORS = ("ClaimConflict", "StoreUnavailable", "TrackerBusy")
#: Errors that a call may be answered with that makes a claim from a flavor.
CREATION_ERRORS = (
    *FLAVOR_ERRORS,
    *("ComputeResourcesUnavailable", "ClaimExpired", "NodeNotReady", "HypervisorUnavailable"),
)
#: The error that a call may be answered with after which the guest may be started.
READY_ERRORS = ("CpuPowerFailed",)


class Arguments(Document, frozen=True, kw_only=True):
    """What every method takes.

    :ivar node: the hypervisor_hostname, when the caller wants it checked.
    """

    node: Name | None = None


class Change(Arguments, frozen=True, kw_only=True):
    """What every method takes that changes state.

    :ivar operation_id: chosen by the caller, who keeps it when repeating the call.
    """

    operation_id: Uuid


class Method(Value, frozen=True, kw_only=True):
    """One method.

    :ivar arguments: the document that its arguments make.
    :ivar reply: the type of its answer; None where the answer is null.
    :ivar errors: what it may answer instead, beside what every call may.
    """

    name: str
    effect: str
    arguments: type[Arguments]
    reply: type[Value] | None = None
    errors: tuple[str, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether it changes state, and so takes an operation id."""
        return "operation_id" in self.arguments.__struct_fields__

    @property
    def all_errors(self) -> tuple[str, ...]:
        """The names of the errors of `rtagent.errors` that it may be answered with."""
        common = (*COMMON_ERRORS, *CHANGE_ERRORS) if self.changes else COMMON_ERRORS
        return (*common, *self.errors)
