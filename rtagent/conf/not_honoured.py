"""Options of Nova that would change what a host offers, and that the agent does not have.

A ``nova.conf`` may be used as it is. An option of it that would be ignored without a word, although
it means something for claims, is a mistake that an operator has to know.
"""

from __future__ import annotations

from collections.abc import Iterator

from oslo_config import cfg

from rtagent.conf.load import sections
from rtagent.errors import ConfigError
from rtagent.model.base import Value

#: Values of a boolean option that is switched off.
OFF = frozenset({"false", "no", "off", "0", ""})


class NotHonoured(Value, frozen=True, kw_only=True):
    """:ivar harmless: values, in lower case, that mean what the agent does anyway.
    :ivar remedy: what to do instead.
    """

    group: str
    option: str
    harmless: frozenset[str]
    remedy: str


OPTIONS = (
    NotHonoured(
        group="DEFAULT",
        option="compute_driver",
        harmless=frozenset({"libvirt.libvirtdriver", ""}),
        remedy="the agent serves hosts with libvirt only",
    ),
    NotHonoured(
        group="DEFAULT",
        option="vcpu_pin_set",
        harmless=frozenset({""}),
        remedy="use [compute] cpu_shared_set, and cpu_dedicated_set for pinned guests",
    ),
    NotHonoured(
        group="libvirt",
        option="virt_type",
        harmless=frozenset({"kvm", "qemu", ""}),
        remedy="the agent serves guests of KVM and QEMU only",
    ),
    NotHonoured(
        group="libvirt",
        option="images_type",
        harmless=frozenset({"default", "flat", "raw", "qcow2", ""}),
        remedy="the agent measures the file system of [DEFAULT] instances_path: remove the option,"
        " and let Placement have a provider that shares the disk",
    ),
    NotHonoured(
        group="workarounds",
        option="reserve_disk_resource_for_image_cache",
        harmless=OFF,
        remedy="add the size of the image cache to [DEFAULT] reserved_host_disk_mb",
    ),
    NotHonoured(
        group="filter_scheduler",
        option="available_filters",
        harmless=frozenset({"nova.scheduler.filters.all_filters", ""}),
        remedy="install filters of your own as entry points of rtagent.scheduler.filters",
    ),
)


def not_honoured(conf: cfg.ConfigOpts) -> Iterator[ConfigError]:
    """Yield a mistake for each of these options that a file sets, in the order of the files."""
    known = {(each.group, each.option): each for each in OPTIONS}
    for _, groups in sections(conf):
        for group, options in groups.items():
            for name, values in options.items():
                entry = known.get((group, name.replace("-", "_")))
                value = values[-1].strip()
                if entry is not None and value.lower() not in entry.harmless:
                    rule = f"is an option of Nova that the agent does not have: {entry.remedy}"
                    yield ConfigError(group=group, option=name, value=value, rule=rule)


def refuse_not_honoured(conf: cfg.ConfigOpts) -> None:
    """:raises ExceptionGroup: of `ConfigError`."""
    if errors := list(not_honoured(conf)):
        raise ExceptionGroup("options of Nova that are not honoured", errors)
