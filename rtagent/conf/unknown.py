"""Options that a file sets in vain: unknown ones, which most often are misspelt, deprecated ones,
and options of Nova that would change what a host offers.

A ``nova.conf`` may be used as it is. An option of it that would be ignored without a word, although
it means something for claims, is a mistake that an operator has to know.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import permutations

from oslo_config import cfg

from rtagent.conf import placement
from rtagent.conf.compute import mdev_group, mdev_options, physnet_group, physnet_options
from rtagent.conf.libraries import LIBRARIES, Group, listed
from rtagent.conf.options import mistake, plain, sections
from rtagent.errors import ConfigError
from rtagent.model.base import Value

#: The namespaces of the options that a file may have.
NAMESPACES = ("rtagent", *LIBRARIES)
#: The option that lists whose groups are read, by what the names of these groups begin with.
_LISTS = {mdev_group(""): "[devices] enabled_mdev_types", physnet_group(""): "[neutron] physnets"}


def unknown(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Yield one sentence for each unknown option, in the order of the files.

    Those of `not_honoured` are mistakes.
    """
    errors = (error.kwargs for error in not_honoured(conf))
    known = _known(_groups(conf)) | {(error["group"], error["option"]) for error in errors}
    read = {group for group, _ in known}
    for where, (group, name) in _written(conf):
        prefix = next((prefix for prefix in _LISTS if group.startswith(prefix)), "")
        if prefix and group not in read:
            yield f"{where} is not read: {_LISTS[prefix]} does not list {group[len(prefix) :]}"
        elif (group, name) not in known:
            right = name.lower().replace("-", "_")
            meant = f": {right} is" if (group, right) in known else ""
            yield f"{where} is not an option of the agent{meant}"


def deprecated(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Yield one sentence for each deprecated option or name that a file sets, in their order."""
    advice = _deprecated(_groups(conf))
    for where, option in _written(conf):
        if found := advice.get(option):
            yield f"{where} is deprecated{found}"


def _groups(conf: cfg.ConfigOpts) -> list[Group]:
    return [*listed(NAMESPACES), *_named(conf), placement.chosen(conf)]


def _written(conf: cfg.ConfigOpts) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield where each option is set, and its group and name."""
    for file, groups in sections(conf):
        for group, options in groups.items():
            for option in options:
                yield f"{file}: [{group}] {option}", (group, option)


def _deprecated(groups: Iterable[Group]) -> dict[tuple[str, str], str]:
    """Return what to do about each deprecated name, by group and name."""
    advice, current = dict[tuple[str, str], str](), set[tuple[str, str]]()
    for group, options in groups:
        name = plain(str(group or "DEFAULT"))
        for option in options:
            if option.deprecated_for_removal:
                reason = " ".join((option.deprecated_reason or "").split())
                advice[name, option.dest] = f" for removal. {reason}".rstrip()
            else:
                current.add((name, option.dest))
            for old in option.deprecated_opts:
                old_name = (plain(str(old.group or name)), old.name or option.dest)
                advice.setdefault(old_name, f": use [{name}] {option.dest}")
    return {name: text for name, text in advice.items() if name not in current}


def _named(conf: cfg.ConfigOpts) -> Iterator[Group]:
    """The groups of the enabled types and of the listed networks; those of others are not read."""
    with suppress(ValueError, cfg.Error):  # which `read` reports
        for type_ in conf.devices.enabled_mdev_types:
            yield mdev_group(type_), mdev_options(type_)
    with suppress(ValueError, cfg.Error):
        for name in conf.neutron.physnets:
            yield physnet_group(name), physnet_options()


def _known(groups: Iterable[Group]) -> frozenset[tuple[str, str]]:
    return frozenset(
        (plain(str(where or group or "DEFAULT")), name)
        for group, options in groups
        for option in options
        for where, name in _names(option)
        if name
    )


def _names(option: cfg.Opt) -> Iterator[tuple[str | None, str | None]]:
    """Each name, with its group if that differs from the option's."""
    yield None, option.dest
    for old in option.deprecated_opts:
        yield old.group, old.name or option.dest


#: Values of a boolean option that is switched off, or on.
OFF, ON = frozenset({"false", "no", "off", "0", ""}), frozenset({"true", "yes", "on", "1"})


class NotHonoured(Value, frozen=True, kw_only=True):
    """:ivar harmless: values that mean what the agent does anyway, in lower case, without blanks.
    :ivar remedy: what to do instead. :ivar repeated: each value counts, not only the last one.
    """

    group: str
    option: str
    harmless: frozenset[str]
    remedy: str
    repeated: bool = False


#: Options of Nova that the agent does not have.
OPTIONS = (
    NotHonoured(
        group="DEFAULT",
        option="compute_driver",
        harmless=frozenset({"libvirt.libvirtdriver", "libvirt.driver.libvirtdriver", ""}),
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
        group="libvirt",
        option="cpu_mode",
        harmless=frozenset({"host-model", "host-passthrough", ""}),
        remedy="remove it, and name in [placement] withheld_traits what guests do not have of the"
        " traits HW_CPU_*",
    ),
    NotHonoured(
        group="libvirt",
        option="swtpm_enabled",
        harmless=ON,
        remedy="remove it, and name the traits COMPUTE_SECURITY_TPM_* in [placement]"
        " withheld_traits",
    ),
    NotHonoured(
        group="libvirt",
        option="supported_tpm_secret_security",
        harmless=frozenset(map(",".join, permutations(("deployment", "host", "user")))),
        remedy="remove it, and name in [placement] withheld_traits what does not hold of the traits"
        " COMPUTE_SECURITY_TPM_SECRET_SECURITY_*",
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
        repeated=True,
    ),
)


def not_honoured(conf: cfg.ConfigOpts) -> Iterator[ConfigError]:
    """Yield a mistake for each of these options that is set, in the order of the files. The last
    file that sets an option counts, as for other options.
    """
    nova = {(entry.group, entry.option): entry for entry in OPTIONS}
    written: dict[NotHonoured, tuple[str, list[str]]] = {}
    for _, groups in sections(conf):
        for group, options in groups.items():
            for name, values in options.items():
                if entry := nova.get((group, name)):
                    earlier = written.get(entry, ("", list[str]()))[1] if entry.repeated else []
                    written[entry] = name, [*earlier, *map(str.strip, values)]
    for entry, (name, values) in written.items():
        for value in values if entry.repeated else values[-1:]:
            if "".join(value.lower().split()) not in entry.harmless:
                rule = f"is an option of Nova that the agent does not have: {entry.remedy}"
                yield mistake(entry.group, name, value, rule)
