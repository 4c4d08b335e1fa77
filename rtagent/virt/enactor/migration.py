"""Live migration: the source's libvirt drives it, so that it survives the death of the caller."""

import contextlib
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future, wait
from functools import partial

import libvirt

from rtagent.errors import HypervisorUnavailable
from rtagent.model.guest import GuestDomain
from rtagent.virt.enactor.host import Check, LibvirtHost, OrderRefused, claimed, lookup, own
from rtagent.virt.libvirt.document import parse, received

#: Seconds between two looks at a migration that an earlier call has begun.
_PAUSE = 0.5
#: Seconds in which a migration that is aborted ends.
_ABORTED = 60.0

_FLAGS = (
    libvirt.VIR_MIGRATE_LIVE
    | libvirt.VIR_MIGRATE_PEER2PEER
    | libvirt.VIR_MIGRATE_PERSIST_DEST
    | libvirt.VIR_MIGRATE_UNDEFINE_SOURCE
)


class LiveMigration:
    """One live migration from a host to another.

    :param dest_uri: the destination, as the source's libvirt reaches it.
    :param timeout: seconds; a migration that takes longer is aborted, and the guest stays.
    """

    def __init__(
        self, source: LibvirtHost, dest: LibvirtHost, dest_uri: str, timeout: float
    ) -> None:
        self._source, self._dest = source, dest
        self._dest_uri, self._timeout = dest_uri, timeout

    def run(self, domain: GuestDomain, claims: Collection[str], check: Check) -> None:
        """Migrate the guest, or wait for the migration that an earlier call has begun.

        :param claims: the claim of the source is one of these.
        :raises NotOfClaim: it is not.
        :raises Refused: it runs at the source. :raises libvirt.libvirtError: the same.
        :raises HypervisorUnavailable: it is unknown where it will run.
        """
        self._wait_for_job(domain.uuid)
        state = self._source.state(domain.uuid, claims)
        if state == "running":
            try:
                self._dest.create_mdevs(domain.node_devices, check)
                self._migrate(domain, claims, check)
            except (libvirt.libvirtError, OrderRefused):
                if not self._has_arrived(domain.uuid):
                    self._remove_mdevs(domain, check)
                    raise
        elif self._dest.state(domain.uuid, (domain.claim.uuid,)) != "running":
            self._remove_mdevs(domain, check)  # of an earlier call
            raise OrderRefused(f"it is {state} at the source, and does not run at the destination")
        if self._source.state(domain.uuid) == "stopped":
            self._source.undefine(domain.uuid, claims, check)

    def _remove_mdevs(self, domain: GuestDomain, check: Check) -> None:
        """Remove the mediated devices at the destination, if the guest did not come."""
        if self._dest.state(domain.uuid) == "absent":
            self._dest.remove_mdevs(domain.node_devices, check)

    def _has_arrived(self, server_uuid: str) -> bool:
        """Return whether the guest runs at the destination only, although libvirt failed after
        that."""
        here, there = self._source.state(server_uuid), self._dest.state(server_uuid)
        return here != "running" and there == "running"

    def _migrate(self, domain: GuestDomain, claims: Collection[str], check: Check) -> None:
        connection = self._source.connection
        document = connection.run(lambda virt: _document(virt, domain))
        parameters = {
            libvirt.VIR_MIGRATE_PARAM_DEST_XML: document,
            libvirt.VIR_MIGRATE_PARAM_PERSIST_XML: document,
        }

        def migrate(virt: libvirt.virConnect) -> None:
            found = own(virt, domain.uuid, claims)
            if found is None:
                raise OrderRefused("it is not at the source any more")
            check()
            found.migrateToURI3(self._dest_uri, parameters, _FLAGS)

        call = _in_thread(partial(connection.run_long, migrate))
        if not wait([call], self._timeout).done:
            self._abort(call, domain.uuid)
        call.result()

    def _abort(self, call: Future[None], server_uuid: str) -> None:
        """Abort the migration until its call has returned.

        :raises HypervisorUnavailable: it does not return.
        """
        deadline = time.monotonic() + _ABORTED
        while time.monotonic() < deadline:
            # It may not have begun, or it may just have ended.
            self._source.connection.run(lambda virt: _abort_job(virt, server_uuid))
            if wait([call], _PAUSE).done:
                return
        raise HypervisorUnavailable(f"{server_uuid}: the migration can neither end nor be aborted")

    def _wait_for_job(self, server_uuid: str) -> None:
        """Wait for the migration that an earlier call has begun, or another job.

        :raises HypervisorUnavailable: it does not end: the guest may still leave.
        """
        deadline = time.monotonic() + self._timeout
        while self._source.connection.run(lambda virt: _has_job(virt, server_uuid)):
            if time.monotonic() > deadline:
                why = f"another job of the domain has not ended in {self._timeout:g} s"
                raise HypervisorUnavailable(f"{server_uuid}: {why}: virsh domjobabort ends it")
            time.sleep(_PAUSE)


def _in_thread(function: Callable[[], None]) -> Future[None]:
    """Call a function on a thread of its own, for which the end of the process does not wait."""
    call = Future[None]()

    def run() -> None:
        try:
            function()
            call.set_result(None)
        except BaseException as error:  # raised in the caller's thread
            call.set_exception(error)

    threading.Thread(target=run, name="live-migration", daemon=True).start()
    return call


def _document(virt: libvirt.virConnect, domain: GuestDomain) -> str:
    """Return the running domain's document, with the claim at the destination merged into it."""
    found = virt.lookupByUUIDString(domain.uuid)
    flags = libvirt.VIR_DOMAIN_XML_MIGRATABLE | libvirt.VIR_DOMAIN_XML_SECURE
    return claimed(parse(received(lambda: found.XMLDesc(flags))), domain)


def _has_job(virt: libvirt.virConnect, server_uuid: str) -> bool:
    found = lookup(virt, server_uuid)
    if found is None or not found.isActive():
        return False
    try:
        return bool(found.jobInfo()[0] != libvirt.VIR_DOMAIN_JOB_NONE)
    except libvirt.libvirtError:
        if lookup(virt, server_uuid) is None or not found.isActive():
            return False  # it has just left
        raise


def _abort_job(virt: libvirt.virConnect, server_uuid: str) -> None:
    found = lookup(virt, server_uuid)
    if found is not None:
        with contextlib.suppress(libvirt.libvirtError):
            found.abortJob()
