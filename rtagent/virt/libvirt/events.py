"""libvirt's event loop, and which events call for what."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import libvirt

#: Told of a domain's change: its uuid, and the word for a targeted audit, or "" when it is enough
#: to read the domain again at the next one.
Changed = Callable[[str, str], None]

_WORDS = {
    libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE: "lifecycle",
    libvirt.VIR_DOMAIN_EVENT_ID_DEVICE_ADDED: "device",
    libvirt.VIR_DOMAIN_EVENT_ID_DEVICE_REMOVED: "device",
    libvirt.VIR_DOMAIN_EVENT_ID_TUNABLE: "",
    libvirt.VIR_DOMAIN_EVENT_ID_BALLOON_CHANGE: "",
}

#: Told of the name of a node device that came, went or changed.
DeviceChanged = Callable[[str], None]

#: Kinds of events of node devices; a driver may lack one.
DEVICE_EVENTS = (
    libvirt.VIR_NODE_DEVICE_EVENT_ID_LIFECYCLE,
    libvirt.VIR_NODE_DEVICE_EVENT_ID_UPDATE,
)
#: How libvirt begins the names of those that can be given to a guest, or are a part of such a one.
#: Disks, for instance, come and go without being of any interest.
_DEVICE_NAMES = ("pci_", "net_", "mdev_", "vdpa_")

_once = threading.Lock()
_running: list[threading.Thread] = []


def run_event_loop() -> None:
    """Start the process's one event loop, unless it runs; a connection opened earlier gets none."""
    with _once:
        if _running:
            return
        silence()
        libvirt.virEventRegisterDefaultImpl()
        thread = threading.Thread(target=_loop, name="libvirt-events", daemon=True)
        thread.start()
        _running.append(thread)


def silence() -> None:
    """End libvirt's habit of printing each error besides raising it."""
    libvirt.registerErrorHandler(_raised_anyway, None)


def subscribe(connection: libvirt.virConnect, changed: Changed) -> list[int]:
    """Hear of changes of every domain; the ids to deregister.

    `changed` runs on the event loop's thread and must return at once.
    """
    return [
        connection.domainEventRegisterAny(None, event, _deliver, (changed, word))
        for event, word in _WORDS.items()
    ]


def subscribe_devices(connection: libvirt.virConnect, event: int, changed: DeviceChanged) -> int:
    """Hear of one kind of event of every node device; the id to deregister.

    `changed` runs on the event loop's thread and must return at once.
    """
    return connection.nodeDeviceEventRegisterAny(None, event, _deliver_device, changed)


def _deliver_device(
    connection: libvirt.virConnect, device: libvirt.virNodeDevice, *details: Any
) -> None:
    name = device.name()
    if name.startswith(_DEVICE_NAMES):
        changed: DeviceChanged = details[-1]
        changed(name)


def _deliver(connection: libvirt.virConnect, domain: libvirt.virDomain, *details: Any) -> None:
    # What an event says between the domain and our own argument differs from kind to kind.
    mine: tuple[Changed, str] = details[-1]
    changed, word = mine
    changed(domain.UUIDString(), word)


def _loop() -> None:
    while True:
        libvirt.virEventRunDefaultImpl()


def _raised_anyway(context: None, error: object) -> None:
    pass
