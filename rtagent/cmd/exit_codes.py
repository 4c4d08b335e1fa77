"""Exit codes of ``rtagent``. They are stable, for scripts."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from rtagent.errors import (
    AllocationMismatch,
    ClaimConflict,
    ClaimExpired,
    ClaimNotFound,
    ComputeResourcesUnavailable,
    ConsumerInUse,
    ConsumerNotFound,
    IdentityError,
    IllegalTransition,
    InvalidRequest,
    NodeNotFound,
    PciDeviceNotFound,
    RestoreNotFound,
    RtAgentError,
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
    Exit.REFUSED: "the host does not have the requested resources",
    Exit.RETRY: "no answer, or not ready yet; repeat the command later",
    Exit.NOT_FOUND: "no such claim, node, device or consumer",
    Exit.CONFLICT: "the state of the claim or of the node does not allow it",
}

_CODES: Mapping[type[RtAgentError], Exit] = {
    InvalidRequest: Exit.USAGE,
    AllocationMismatch: Exit.USAGE,
    ComputeResourcesUnavailable: Exit.REFUSED,
    ClaimNotFound: Exit.NOT_FOUND,
    NodeNotFound: Exit.NOT_FOUND,
    PciDeviceNotFound: Exit.NOT_FOUND,
    ConsumerNotFound: Exit.NOT_FOUND,
    ConsumerInUse: Exit.CONFLICT,
    ClaimConflict: Exit.CONFLICT,
    ClaimExpired: Exit.CONFLICT,
    IllegalTransition: Exit.CONFLICT,
    IdentityError: Exit.CONFLICT,
    RestoreNotFound: Exit.CONFLICT,
}


def exit_code(error: BaseException) -> Exit:
    """Return the exit code of a command that ended with an error."""
    if isinstance(error, RtAgentError) and error.retriable:
        return Exit.RETRY
    return next((code for type_, code in _CODES.items() if isinstance(error, type_)), Exit.ERROR)


def exit_code_help() -> str:
    """Return the list of exit codes for ``--help``."""
    lines = (f"  {code.value}  {meaning}" for code, meaning in MEANINGS.items())
    return "\n".join(("exit codes:", *lines))
