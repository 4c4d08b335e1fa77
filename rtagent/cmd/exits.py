"""Exit codes of ``rtagent``: stable, for scripts."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from rtagent.errors import (
    ClaimConflict,
    ClaimExpired,
    ClaimNotFound,
    ComputeResourcesUnavailable,
    IdentityError,
    IllegalTransition,
    InvalidRequest,
    NodeNotFound,
    PciDeviceNotFound,
    RtAgentError,
)


class Exit(enum.IntEnum):
    """What a script may rely on."""

    OK = 0
    ERROR = 1
    USAGE = 2
    REFUSED = 3
    RETRY = 4
    NOT_FOUND = 5
    CONFLICT = 6


MEANINGS: Mapping[Exit, str] = {
    Exit.OK: "done",
    Exit.ERROR: "an error that a repeat does not mend",
    Exit.USAGE: "the command line or the request is wrong",
    Exit.REFUSED: "the host cannot hold what was asked for",
    Exit.RETRY: "not now: nobody answers, or not yet; repeat it later",
    Exit.NOT_FOUND: "no such claim, node or device",
    Exit.CONFLICT: "the state of the claim or of the node does not allow it",
}

_CODES: Mapping[type[RtAgentError], Exit] = {
    InvalidRequest: Exit.USAGE,
    ComputeResourcesUnavailable: Exit.REFUSED,
    ClaimNotFound: Exit.NOT_FOUND,
    NodeNotFound: Exit.NOT_FOUND,
    PciDeviceNotFound: Exit.NOT_FOUND,
    ClaimConflict: Exit.CONFLICT,
    ClaimExpired: Exit.CONFLICT,
    IllegalTransition: Exit.CONFLICT,
    IdentityError: Exit.CONFLICT,
}


def code(error: BaseException) -> Exit:
    """The exit code that tells of an error."""
    if isinstance(error, RtAgentError) and error.retriable:
        return Exit.RETRY
    return next((c for kind, c in _CODES.items() if isinstance(error, kind)), Exit.ERROR)


def described() -> str:
    """The table, as ``--help`` shows it."""
    lines = (f"  {meaning.value}  {text}" for meaning, text in MEANINGS.items())
    return "\n".join(("exit codes:", *lines))
