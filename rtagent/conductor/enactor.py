"""Enactor: the port through which a conductor runs guests on hosts."""

from __future__ import annotations

from typing import Protocol

from rtagent.model.guest_domain import GuestDomain, GuestState


class Enactor(Protocol):
    """Runs guests on hosts. Thread-safe.

    Every method is idempotent: a repetition finds the work done, or finishes it, whether or not the
    first call had an effect and was answered. Every wait is bounded.

    Every method raises `HypervisorUnavailable` if the host does not answer: the call may have had
    an effect, and the conductor repeats it. It raises `rtagent.virt.errors.EnactmentFailed` if the
    host refused: a repetition would be refused, too, and the conductor undoes the operation.
    """

    def state(self, host: str, server_uuid: str) -> GuestState:
        """Return whether the server's domain is absent, stopped or running on a host."""
        ...

    def define(self, host: str, domain: GuestDomain) -> None:
        """Define the domain, and replace a definition that differs. It is not started.

        A domain that runs keeps running as it is; its definition is replaced.
        """
        ...

    def start(self, host: str, domain: GuestDomain) -> None:
        """Start the domain that `define` defined, with its mediated devices."""
        ...

    def stop(self, host: str, server_uuid: str) -> None:
        """Stop the domain. The definition stays. An absent domain is stopped."""
        ...

    def undefine(self, host: str, server_uuid: str) -> None:
        """Stop the domain, and remove it and its mediated devices from the host."""
        ...

    def live_migrate(self, source: str, dest: str, domain: GuestDomain) -> None:
        """Migrate the running domain, so that it enacts the claim of the destination there.

        Afterwards it runs at the destination and is absent at the source. If it raises
        `EnactmentFailed`, it runs at the source and is absent at the destination.
        """
        ...
