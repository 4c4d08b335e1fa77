"""What makes a device one that was asked for."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from rtagent.model.base import Value
from rtagent.model.device import SRIOV_PF, VDPA, PciDevice, Tags


class Wanted(Value, frozen=True, kw_only=True):
    """One specification; None (of the network: UNSET) is any.

    :ivar dev_type: physical functions, and vDPA devices, are given only to those who name them.
    :ivar remote_managed: no is as good as nothing said: such devices go only to those who ask.
    """

    vendor_id: str | None = None
    product_id: str | None = None
    dev_type: str | None = None
    physical_network: str | UnsetType | None = UNSET
    trusted: bool | None = None
    remote_managed: bool = False
    live_migratable: bool | None = None
    resource_class: str | None = None
    traits: frozenset[str] = frozenset()
    parent_ifname: str | None = None

    def matches(self, candidate: PciDevice) -> bool:
        """Whether the device is one of these."""
        device, tags = candidate.device, candidate.tags
        return (
            self.vendor_id in (None, device.vendor_id)
            and self.product_id in (None, device.product_id)
            and self._of_type(device.dev_type)
            and self.parent_ifname in (None, device.parent_ifname)
            and self._tagged(tags)
            and (self.resource_class is None or self.resource_class == candidate.resource_class)
        )

    def _of_type(self, dev_type: str) -> bool:
        if self.dev_type is None:
            return dev_type not in (SRIOV_PF, VDPA)
        return self.dev_type == dev_type

    def _tagged(self, tags: Tags) -> bool:
        return (
            _same_network(self.physical_network, tags.physical_network)
            and self.remote_managed == tags.remote_managed
            and self.trusted in (None, tags.trusted)
            and self.live_migratable in (None, tags.live_migratable)
            and self.traits <= tags.traits
        )

    def __str__(self) -> str:
        """What it insists on, for a refusal to name."""
        parts = [f"{self.vendor_id or '*'}:{self.product_id or '*'}"]
        if self.vendor_id is None and self.product_id is None:
            parts = []
        if self.dev_type is not None:
            parts.append(self.dev_type)
        if self.physical_network is not UNSET:
            parts.append(f"physical_network={self.physical_network}")
        if self.resource_class is not None:
            parts.append(self.resource_class)
        return " ".join(parts) or "any"


def _same_network(asked: str | UnsetType | None, offered: str | UnsetType | None) -> bool:
    """Names compare whatever their case."""
    if asked is UNSET:
        return True
    if isinstance(asked, str) and isinstance(offered, str):
        return asked.lower() == offered.lower()
    return asked is offered
