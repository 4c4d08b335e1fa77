"""Exit codes of ``rtagent``. They are stable, for scripts."""

import enum
from collections.abc import Mapping

from rtagent.conductor.errors import (
    OperationFailed,
    OperationNotFound,
    ServerConflict,
    ServerNotFound,
)
from rtagent.errors import (
    AllocationMismatch,
    ClaimConflict,
    ClaimExpired,
    ClaimNotFound,
    ComputeResourcesUnavailable,
    ConsumerInUse,
    ConsumerNotFound,
    DomainNotAdoptable,
    FlavorNotFound,
    GuestRunning,
    IdentityError,
    IllegalTransition,
    InvalidRequest,
    NodeDraining,
    NodeNotFound,
    PciDeviceNotFound,
    RestoreNotFound,
    RtAgentError,
)
from rtagent.scheduler.errors import (
    AggregateConflict,
    AggregateHostNotFound,
    AggregateNotFound,
    DecisionNotFound,
    HostNotFound,
    NoValidHost,
)


class Exit(enum.IntEnum):
    """The exit codes of all commands but ``upgrade check``, which has its own."""

    OK = 0
    ERROR = 1
    USAGE = 2
    REFUSED = 3
    RETRY = 4
    NOT_FOUND = 5
    CONFLICT = 6


MEANINGS: Mapping[Exit, str] = {
    Exit.OK: "success",
    Exit.ERROR: "an error that a repetition does not resolve",
    Exit.USAGE: "the command line or the request is invalid",
    Exit.REFUSED: "the host does not have the requested resources, or no host has them",
    Exit.RETRY: "no answer, or not ready yet; repeat the command later",
    Exit.NOT_FOUND: "no such claim, node, device, flavor, consumer, host, aggregate or decision",
    Exit.CONFLICT: "the state of the claim, the node or the aggregate does not allow it",
}

_CODES: Mapping[type[RtAgentError], Exit] = {
    InvalidRequest: Exit.USAGE,
    AllocationMismatch: Exit.USAGE,
    ComputeResourcesUnavailable: Exit.REFUSED,
    ClaimNotFound: Exit.NOT_FOUND,
    NodeNotFound: Exit.NOT_FOUND,
    FlavorNotFound: Exit.NOT_FOUND,
    PciDeviceNotFound: Exit.NOT_FOUND,
    ConsumerNotFound: Exit.NOT_FOUND,
    ConsumerInUse: Exit.CONFLICT,
    ClaimConflict: Exit.CONFLICT,
    GuestRunning: Exit.CONFLICT,
    DomainNotAdoptable: Exit.CONFLICT,
    ClaimExpired: Exit.CONFLICT,
    IllegalTransition: Exit.CONFLICT,
    IdentityError: Exit.CONFLICT,
    NodeDraining: Exit.CONFLICT,
    NoValidHost: Exit.REFUSED,
    HostNotFound: Exit.NOT_FOUND,
    DecisionNotFound: Exit.NOT_FOUND,
    AggregateNotFound: Exit.NOT_FOUND,
    AggregateHostNotFound: Exit.NOT_FOUND,
    AggregateConflict: Exit.CONFLICT,
    RestoreNotFound: Exit.CONFLICT,
    ServerNotFound: Exit.NOT_FOUND,
    OperationNotFound: Exit.NOT_FOUND,
    ServerConflict: Exit.CONFLICT,
}

#: The causes of failed operations that a conductor meets, by the name of the error.
_CAUSES = {type_.__name__: code for type_, code in _CODES.items()} | {"NoValidHost": Exit.REFUSED}


def exit_code(error: BaseException) -> Exit:
    """Return the exit code of a command that ended with an error."""
    if isinstance(error, RtAgentError) and error.retriable:
        return Exit.RETRY
    if isinstance(error, OperationFailed):
        return _CAUSES.get(error.kwargs["error"]["error"], Exit.ERROR)
    return next((code for type_, code in _CODES.items() if isinstance(error, type_)), Exit.ERROR)


def exit_code_help() -> str:
    """Return the list of exit codes for ``--help``."""
    lines = (f"  {code.value}  {meaning}" for code, meaning in MEANINGS.items())
    return "\n".join(("exit codes:", *lines))
