"""ServedTracker: the tracker of a nova-compute whose node operators can read."""

from __future__ import annotations

from typing import Any

from nova import utils
from oslo_log import log

from rtagent.conf.settings import Settings
from rtagent.embedded import SystemClock
from rtagent.nova.live_domains import libvirt_of
from rtagent.nova.node_service import NodeService
from rtagent.nova.node_tracker import CONF
from rtagent.nova.nova_node import NovaNode
from rtagent.nova.tracker import ResourceTracker
from rtagent.telemetry.telemetry import Telemetry
from rtagent.virt.libvirt.hypervisor import LibvirtHypervisor

LOG = log.getLogger(__name__)


class ServedTracker(ResourceTracker):
    """Serves the node that the service opens first. Drivers of libvirt have no other one."""

    def __init__(self, host: str, driver: Any, reportclient: Any = None) -> None:
        super().__init__(host, driver, reportclient)
        self._served: tuple[str, NodeService] | None = None

    def remove_node(self, nodename: str) -> None:
        if self._served is not None and self._served[0] == nodename:
            self._served[1].close()
            self._served = None
        super().remove_node(nodename)

    def _open_node(self, compute_node: Any, settings: Settings) -> NovaNode:
        telemetry = Telemetry(SystemClock())
        node = NovaNode(compute_node, settings, telemetry)
        if self._served is None:
            libvirt = _comparable_libvirt(settings, telemetry, node)
            service = NodeService(node, settings, telemetry, libvirt)
            service.start()
            self._served = compute_node.hypervisor_hostname, service
        return node


def _comparable_libvirt(
    settings: Settings, telemetry: Telemetry, node: NovaNode
) -> LibvirtHypervisor | None:
    """Return the libvirt whose domains are compared with the claims; None: they are not."""
    if utils.concurrency_mode_threading():
        return libvirt_of(CONF, settings, telemetry, node)
    # A call of libvirt's would stop all greenlets.
    LOG.warning("Without native threads, claims are not compared with libvirt's domains")
    return None
