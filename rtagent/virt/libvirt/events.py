"""libvirt's event loop and the subscriptions to its events."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import libvirt

#: Called on a domain's change with its uuid and the cause of a targeted audit; the cause is "" if
#: it is enough to read the domain again at the next audit.
Changed = Callable[[str, str], None]

_WORDS = {
    libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE: "lifecycle",
    libvirt.VIR_DOMAIN_EVENT_ID_DEVICE_ADDED: "device",
    libvirt.VIR_DOMAIN_EVENT_ID_DEVICE_REMOVED: "device",
    libvirt.VIR_DOMAIN_EVENT_ID_TUNABLE: "",
    libvirt.VIR_DOMAIN_EVENT_ID_BALLOON_CHANGE: "",
}

#: Called with the name of a node device that was added, removed or changed.
DeviceChanged = Callable[[str], None]

#: Types of node-device events; a driver may lack some.
DEVICE_EVENTS = (
    libvirt.VIR_NODE_DEVICE_EVENT_ID_LIFECYCLE,
    libvirt.VIR_NODE_DEVICE_EVENT_ID_UPDATE,
)
#: Name prefixes of devices that can be assigned to a guest, or that are parts of such devices.
#: Other devices, such as disks, are irrelevant.
_DEVICE_NAMES = ("pci_", "net_", "mdev_", "vdpa_")

_once = threading.Lock()
_running: list[threading.Thread] = []


def run_event_loop() -> None:
    """Start the process's event loop once. Must precede opening a connection that needs events."""
    with _once:
        if _running:
            return
        silence()
        libvirt.virEventRegisterDefaultImpl()
        thread = threading.Thread(target=_loop, name="libvirt-events", daemon=True)
        thread.start()
        _running.append(thread)


def repeat(seconds: float, call: Callable[[], None]) -> Callable[[], object]:
    """Start the event loop, and call `call` at this interval on its thread; it must return at once.

    :returns: what ends that.
    """
    run_event_loop()
    timer = libvirt.virEventAddTimeout(round(1000 * seconds), _tick, call)
    return partial(libvirt.virEventRemoveTimeout, timer)


def silence() -> None:
    """Stop libvirt from printing each error in addition to raising it."""
    libvirt.registerErrorHandler(_ignore_error, None)


def subscribe(connection: libvirt.virConnect, changed: Changed) -> list[int]:
    """Subscribe to changes of every domain; return the ids to deregister.

    `changed` runs on the event loop's thread and must return at once.
    """
    return [
        connection.domainEventRegisterAny(None, event, _deliver, (changed, word))
        for event, word in _WORDS.items()
    ]


def subscribe_devices(connection: libvirt.virConnect, event: int, changed: DeviceChanged) -> int:
    """Subscribe to one type of event of every node device; return the id to deregister.

    `changed` runs on the event loop's thread and must return at once.
    """
    callback: int = connection.nodeDeviceEventRegisterAny(None, event, _deliver_device, changed)
    return callback


def _deliver_device(
    connection: libvirt.virConnect, device: libvirt.virNodeDevice, *details: Any
) -> None:
    name = device.name()
    if name.startswith(_DEVICE_NAMES):
        changed: DeviceChanged = details[-1]
        changed(name)


def _deliver(connection: libvirt.virConnect, domain: libvirt.virDomain, *details: Any) -> None:
    # The arguments between the domain and our own (the last) differ between types of events.
    registered: tuple[Changed, str] = details[-1]
    changed, word = registered
    changed(domain.UUIDString(), word)


def _tick(_timer: int, call: Callable[[], None]) -> None:
    call()


def _loop() -> None:
    while True:
        libvirt.virEventRunDefaultImpl()


def _ignore_error(context: None, error: object) -> None:
    pass
