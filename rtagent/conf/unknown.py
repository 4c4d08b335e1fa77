"""Options that a file sets and that nothing reads: misspelt ones, most often."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

from oslo_config import cfg

#: Whose options the daemon reads (entry points of ``oslo.config.opts``).
NAMESPACES = ("rtagent", "oslo.log", "oslo.messaging")


def unknown(conf: cfg.ConfigOpts) -> Iterator[str]:
    """One sentence for each such option, in the order of the files."""
    known = _known()
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


def _known() -> frozenset[tuple[str, str]]:
    found = entry_points(group="oslo.config.opts")
    listed = [found[namespace].load()() for namespace in NAMESPACES]
    return frozenset(
        (str(group or "DEFAULT"), name)
        for groups in listed
        for group, options in groups
        for option in options
        for name in (option.dest, *(old.name for old in option.deprecated_opts))
        if name
    )
