"""The operator's part in devices, made of the options of four groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rtagent.conf.devices import Devices
from rtagent.conf.libvirt import Libvirt
from rtagent.conf.pci import Pci
from rtagent.errors import ConfigError
from rtagent.model.base import Value
from rtagent.model.device_spec import DeviceSpec
from rtagent.model.observation import Problem
from rtagent.model.pci_policy import PciPolicy
from rtagent.pci.alias import parse_aliases
from rtagent.pci.mdev import MdevSettings, enabled_types
from rtagent.pci.pmem import pmem_inventories
from rtagent.pci.reporting import addressed
from rtagent.pci.spec import parse_specs


class DeviceOptions(Value, frozen=True, kw_only=True):
    """The options as they are written. :ivar mdev: by the type of mediated devices."""

    pci: Pci
    devices: Devices
    mdev: Mapping[str, MdevSettings]
    libvirt: Libvirt

    def policy(self) -> PciPolicy:
        """:raises ConfigError: the first of the `mistakes`."""
        return PciPolicy(
            report_in_placement=self.pci.report_in_placement,
            **{field: read() for field, read in self._readers().items()},
        )

    def mistakes(self) -> Iterator[ConfigError]:
        """The first of each option."""
        for read in self._readers().values():
            try:
                read()
            except ConfigError as error:
                yield error

    def doubts(self) -> tuple[Problem, ...]:
        """What is allowed, and hardly meant. :raises ConfigError: as `policy`."""
        _, problems = enabled_types(self.devices.enabled_mdev_types, self.mdev)
        return problems

    def _readers(self) -> dict[str, Callable[[], Any]]:
        """What makes each field of the policy."""
        return {
            "specs": self._specs,
            "aliases": lambda: parse_aliases(self.pci.alias),
            "mdev_types": lambda: enabled_types(self.devices.enabled_mdev_types, self.mdev)[0],
            "pmem": lambda: pmem_inventories(self.libvirt.pmem_namespaces),
        }

    def _specs(self) -> tuple[DeviceSpec, ...]:
        specs = parse_specs(self.pci.device_spec)
        if self.pci.report_in_placement:
            addressed(specs)
        return specs
