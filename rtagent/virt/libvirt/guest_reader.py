"""Read one domain alone."""

from __future__ import annotations

import libvirt

from rtagent.model.guest import GuestLayout
from rtagent.virt.libvirt.connection import Session, broken
from rtagent.virt.libvirt.document import BadDocument, received
from rtagent.virt.libvirt.guest_layout import parse_layout, unreadable
from rtagent.virt.libvirt.host_facts import HostFacts
from rtagent.virt.libvirt.workers import Workers


def read_guest(
    session: Session, workers: Workers, uuid: str, host: HostFacts
) -> GuestLayout | None:
    """Return the layout of a domain; None: there is no such domain.

    :raises libvirt.libvirtError: TimeoutError: the session is unusable.
    """
    try:
        domain = workers.call(lambda: session.virt.lookupByUUIDString(uuid))
        name, active = domain.name(), bool(workers.call(domain.isActive))
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return None
        raise
    try:
        document = workers.call(lambda: received(lambda: domain.XMLDesc(0)))
    except BadDocument as error:
        return unreadable(uuid, name, active, str(error))
    except TimeoutError:
        # Raises TimeoutError if libvirt as a whole hangs, not only this domain.
        workers.call(session.virt.getLibVersion)
        return unreadable(uuid, name, active, "libvirt does not return its document in time")
    except libvirt.libvirtError as error:
        if broken(session, error):
            raise
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return None
        return unreadable(uuid, name, active, str(error))
    return parse_layout(document, uuid, name, active, host)
