"""Options that a file sets and that nothing reads: misspelt ones, most often."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from oslo_config import cfg

from rtagent.conf import placement
from rtagent.conf.devices import mdev_group, mdev_options, mdev_types
from rtagent.conf.libraries import LIBRARIES, Group, listed

#: Whose options a file may have.
NAMESPACES = ("rtagent", *LIBRARIES)


def unknown(conf: cfg.ConfigOpts) -> Iterator[str]:
    """One sentence for each such option, in the order of the files."""
    known = _known([*listed(NAMESPACES), *_mdev(conf), placement.chosen(conf)])
    for file in _files(conf):
        sections: dict[str, dict[str, list[str]]] = {}
        cfg.ConfigParser(str(file), sections).parse()
        for group, options in sections.items():
            for option in options:
                if (group, option.replace("-", "_")) not in known:
                    yield f"{file}: [{group}] {option} is not an option of the agent"


def _files(conf: cfg.ConfigOpts) -> Iterator[Path]:
    yield from map(Path, conf.config_file or ())
    for directory in conf.config_dir or ():
        yield from sorted(Path(directory).glob("*.conf"))


def _mdev(conf: cfg.ConfigOpts) -> Iterator[Group]:
    """Of the types that are enabled: those of others are not read."""
    for type_ in mdev_types(conf):
        yield mdev_group(type_), mdev_options(type_)


def _known(groups: Iterable[Group]) -> frozenset[tuple[str, str]]:
    return frozenset(
        (str(where or group or "DEFAULT"), name)
        for group, options in groups
        for option in options
        for where, name in _names(option)
        if name
    )


def _names(option: cfg.Opt) -> Iterator[tuple[str | None, str | None]]:
    """Each with its group where that is another than the option's."""
    yield None, option.dest
    for old in option.deprecated_opts:
        yield old.group, old.name or option.dest
