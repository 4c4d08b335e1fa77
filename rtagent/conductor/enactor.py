"""Enactor: the port through which a conductor runs guests on hosts."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from rtagent.model.guest import GuestDomain, GuestState


class Enactor(Protocol):
    """Runs guests on hosts. Thread-safe.

    Every method is idempotent: a repetition finds the work done, or finishes it, whether or not the
    first call had an effect and was answered. Every wait is bounded.

    An order is for a claim, and the domain's metadata name its own. A domain of another claim, or
    of none, is not touched: `rtagent.virt.errors.ClaimMismatch`. An order for an absent domain has
    nothing to do.

    Every method that has an effect calls ``check`` just before each effect, with the session open
    on which it is made, so that a process that stands still in between loses the session. The error
    of ``check`` prevents the effect.

    Every method raises `HypervisorUnavailable` if the host does not answer: the call may have had
    an effect, and the conductor repeats it. It raises `rtagent.virt.errors.EnactmentFailed` if the
    host refused: a repetition would be refused, too, and the conductor undoes the operation.
    """

    def state(self, host: str, server_uuid: str) -> GuestState:
        """Return whether the server's domain is absent, stopped or running on a host."""
        ...

    def define(
        self,
        host: str,
        domain: GuestDomain,
        replaced: Collection[str],
        check: Callable[[], object],
    ) -> None:
        """Define the domain, and replace a definition that differs. It is not started.

        A domain that runs keeps running as it is; its definition is replaced.

        :param replaced: other claims whose domain is replaced.
        """
        ...

    def start(self, host: str, domain: GuestDomain, check: Callable[[], object]) -> None:
        """Start the domain that `define` defined, with its mediated devices."""
        ...

    def stop(
        self, host: str, server_uuid: str, claims: Collection[str], check: Callable[[], object]
    ) -> None:
        """Stop the domain. The definition stays. :param claims: it is of one of these."""
        ...

    def undefine(
        self, host: str, server_uuid: str, claims: Collection[str], check: Callable[[], object]
    ) -> None:
        """Stop the domain, and remove it and its mediated devices from the host.

        :param claims: it is of one of these.
        """
        ...

    def live_migrate(
        self,
        source: str,
        dest: str,
        domain: GuestDomain,
        claims: Collection[str],
        check: Callable[[], object],
    ) -> None:
        """Migrate the running domain, so that it enacts the claim of the destination there.

        Afterwards it runs at the destination and is absent at the source. If it raises
        `EnactmentFailed`, it runs at the source, and is absent at the destination with its mediated
        devices.

        :param claims: at the source it is of one of these.
        """
        ...
