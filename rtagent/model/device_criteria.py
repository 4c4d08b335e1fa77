"""The criteria that a device must meet to satisfy a request."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from rtagent.model.base import Value
from rtagent.model.device import SRIOV_PF, VDPA, PciDevice, Tags


class DeviceCriteria(Value, frozen=True, kw_only=True):
    """One alternative of an alias or of a request; None accepts anything.

    :ivar dev_type: None accepts neither physical functions nor vDPA devices: a request must name
        these types.
    :ivar physical_network: UNSET accepts anything; None is a tunnelled network.
    :ivar remote_managed: False, also when the request does not say: remote-managed devices go only
        to requests that ask for them.
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
        """Whether the device meets all the criteria."""
        device, tags = candidate.device, candidate.tags
        return (
            self.vendor_id in (None, device.vendor_id)
            and self.product_id in (None, device.product_id)
            and self._accepts_type(device.dev_type)
            and self.parent_ifname in (None, device.parent_ifname)
            and self._accepts_tags(tags)
            and (self.resource_class is None or self.resource_class == candidate.resource_class)
        )

    def _accepts_type(self, dev_type: str) -> bool:
        if self.dev_type is None:
            return dev_type not in (SRIOV_PF, VDPA)
        return self.dev_type == dev_type

    def _accepts_tags(self, tags: Tags) -> bool:
        return (
            _same_network(self.physical_network, tags.physical_network)
            and self.remote_managed == tags.remote_managed
            and self.trusted in (None, tags.trusted)
            and self.live_migratable in (None, tags.live_migratable)
            and self.traits <= tags.traits
        )

    def __str__(self) -> str:
        """The main criteria, for refusals."""
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


def _same_network(requested: str | UnsetType | None, tag: str | UnsetType | None) -> bool:
    """Compare names case-insensitively."""
    if requested is UNSET:
        return True
    if isinstance(requested, str) and isinstance(tag, str):
        return requested.lower() == tag.lower()
    return requested is tag
