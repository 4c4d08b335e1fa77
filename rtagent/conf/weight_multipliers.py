"""The options ``*_weight_multiplier`` of [filter_scheduler]."""

from __future__ import annotations

from oslo_config import cfg

from rtagent.conf.types import FiniteFloat
from rtagent.scheduler.options import DEFAULT_MULTIPLIERS

_OVERRIDE = """
The same key in the metadata of a host's aggregates overrides the option for that host; the smallest
value counts if there are several.
"""


def _option(name: str, text: str, least: float | None = None) -> cfg.Opt:
    option = f"{name}_weight_multiplier"
    return cfg.Opt(
        option,
        type=FiniteFloat(min=least),
        default=DEFAULT_MULTIPLIERS[option],
        mutable=True,
        help=f"\n{text.strip()}\n{_OVERRIDE}",
    )


OPTS = [
    _option(
        "ram",
        """
The multiplier of RAMWeigher. Positive: hosts with more free memory are preferred, so guests are
spread. Negative: guests are stacked on the fullest hosts. 0: memory does not count.
""",
    ),
    _option(
        "cpu",
        """
The multiplier of CPUWeigher. Positive: hosts with more free vCPUs are preferred. Negative: guests
are stacked. 0: CPUs do not count.
""",
    ),
    _option(
        "disk",
        """
The multiplier of DiskWeigher. Positive: hosts with more free disk are preferred. Negative: guests
are stacked. 0: disks do not count.
""",
    ),
    _option(
        "hypervisor_version",
        """
The multiplier of HypervisorVersionWeigher. Positive: hosts with a newer hypervisor are preferred.
Negative: older ones. 0: versions do not count.
""",
    ),
    _option(
        "num_instances",
        """
The multiplier of NumInstancesWeigher. Positive: hosts with more instances are preferred. Negative:
hosts with fewer instances. 0: the number of instances does not count.
""",
    ),
    _option(
        "io_ops",
        """
The multiplier of IoOpsWeigher, which counts the instances that are being built, resized, migrated,
rescued, unshelved or snapshotted. Negative: hosts with less of that work are preferred. Positive:
busier hosts. 0: the work does not count.
""",
    ),
    _option(
        "image_props",
        """
The multiplier of ImagePropertiesWeigher. Positive: hosts whose instances have images with the
properties of the requested one are preferred. Negative: hosts without such instances. 0: image
properties do not count.
""",
    ),
    _option(
        "pci",
        """
The multiplier of PCIWeigher, which prefers hosts with fewer available PCI devices; at least 0. 0:
devices do not count.
""",
        least=0.0,
    ),
    _option(
        "soft_affinity",
        """
The multiplier of ServerGroupSoftAffinityWeigher, which prefers hosts that have more members of the
server group; at least 0. 0: soft affinity does not count.
""",
        least=0.0,
    ),
    _option(
        "soft_anti_affinity",
        """
The multiplier of ServerGroupSoftAntiAffinityWeigher, which prefers hosts that have fewer members of
the server group; at least 0. 0: soft anti-affinity does not count.
""",
        least=0.0,
    ),
    _option(
        "build_failure",
        """
The multiplier of BuildFailureWeigher, which avoids hosts on which builds failed recently. It is
subtracted. 0: failed builds do not count.
""",
    ),
    _option(
        "cross_cell_move",
        """
The multiplier of CrossCellWeigher. It has no effect, because there is one cell.
""",
    ),
]
