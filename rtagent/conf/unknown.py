"""Options that a file sets but that are never read; most often they are misspelt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from oslo_config import cfg

from rtagent.conf import placement
from rtagent.conf.devices import mdev_group, mdev_options, mdev_types
from rtagent.conf.libraries import LIBRARIES, Group, listed
from rtagent.conf.load import sections
from rtagent.conf.neutron import physnet_group, physnet_options, physnets

#: The namespaces of the options that a file may have.
NAMESPACES = ("rtagent", *LIBRARIES)


def unknown(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Yield one sentence for each unknown option, in the order of the files."""
    known = _known([*listed(NAMESPACES), *_named(conf), placement.chosen(conf)])
    for file, groups_of_file in sections(conf):
        for group, options in groups_of_file.items():
            for option in options:
                if (group, option.replace("-", "_")) not in known:
                    yield f"{file}: [{group}] {option} is not an option of the agent"


def deprecated(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Yield one sentence for each deprecated option or name that a file sets, in their order."""
    groups = [*listed(NAMESPACES), *_named(conf), placement.chosen(conf)]
    advice = _deprecated(groups)
    for file, groups_of_file in sections(conf):
        for group, options in groups_of_file.items():
            for option in options:
                if found := advice.get((group, option.replace("-", "_"))):
                    yield f"{file}: [{group}] {option} is deprecated{found}"


def _deprecated(groups: Iterable[Group]) -> dict[tuple[str, str], str]:
    """Return what to do about each deprecated name, by group and name."""
    advice, current = dict[tuple[str, str], str](), set[tuple[str, str]]()
    for group, options in groups:
        name = str(group or "DEFAULT")
        for option in options:
            if option.deprecated_for_removal:
                reason = " ".join((option.deprecated_reason or "").split())
                advice[name, option.dest] = f" for removal. {reason}".rstrip()
            else:
                current.add((name, option.dest))
            for old in option.deprecated_opts:
                old_name = (str(old.group or name), (old.name or option.dest).replace("-", "_"))
                advice.setdefault(old_name, f": use [{name}] {option.dest}")
    return {name: text for name, text in advice.items() if name not in current}


def _named(conf: cfg.ConfigOpts) -> Iterator[Group]:
    """The groups of the enabled types and of the listed networks; those of others are not read."""
    for type_ in mdev_types(conf):
        yield mdev_group(type_), mdev_options(type_)
    for name in physnets(conf):
        yield physnet_group(name), physnet_options()


def _known(groups: Iterable[Group]) -> frozenset[tuple[str, str]]:
    return frozenset(
        (str(where or group or "DEFAULT"), name)
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
