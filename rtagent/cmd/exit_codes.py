"""Exit codes of ``rtagent``. They are stable, for scripts."""

import enum
from collections.abc import Iterator, Mapping

from rtagent import errors
from rtagent.conductor import errors as conductor
from rtagent.errors import RtAgentError
from rtagent.scheduler import errors as scheduler


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

_ERRORS: Mapping[Exit, tuple[type[RtAgentError], ...]] = {
    Exit.USAGE: (errors.InvalidRequest, errors.AllocationMismatch),
    Exit.REFUSED: (errors.ComputeResourcesUnavailable, scheduler.NoValidHost),
    Exit.NOT_FOUND: (errors.NotFound,),
    Exit.CONFLICT: (
        *(errors.ConsumerInUse, errors.ClaimConflict, errors.GuestRunning, errors.ClaimExpired),
        *(errors.DomainNotAdoptable, errors.IllegalTransition, errors.IdentityError),
        *(errors.NodeDraining, errors.RestoreNotFound, scheduler.AggregateConflict),
        conductor.ServerConflict,
    ),
}
_CODES = {type_: code for code, types in _ERRORS.items() for type_ in types}


def _with_subclasses(type_: type[RtAgentError]) -> Iterator[type[RtAgentError]]:
    for subclass in type_.__subclasses__():
        yield from _with_subclasses(subclass)
    yield type_


#: The causes of failed operations that a conductor meets, by the name of the error.
_CAUSES = {
    each.__name__: code for type_, code in _CODES.items() for each in _with_subclasses(type_)
}


def exit_code(error: BaseException) -> Exit:
    """Return the exit code of a command that ended with an error."""
    if isinstance(error, RtAgentError) and error.retriable:
        return Exit.RETRY
    if isinstance(error, conductor.OperationFailed):
        return _CAUSES.get(error.kwargs["error"]["error"], Exit.ERROR)
    return next((code for type_, code in _CODES.items() if isinstance(error, type_)), Exit.ERROR)


def exit_code_help() -> str:
    """Return the list of exit codes for ``--help``."""
    lines = (f"  {code.value}  {meaning}" for code, meaning in MEANINGS.items())
    return "\n".join(("exit codes:", *lines))
