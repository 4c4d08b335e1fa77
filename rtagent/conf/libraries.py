"""Options that libraries read by themselves: judged with ours, before they trip a library."""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import entry_points

from oslo_config import cfg

from rtagent.conf import opts
from rtagent.conf.reading import Mistakes, mistake, note, values

#: Whose options the daemon has beside its own (entry points of ``oslo.config.opts``).
LOG = "oslo.log"
LIBRARIES = (LOG, "oslo.messaging")

#: The option that names a file of logging's own, which is looked for at each reload.
LOG_CONFIG = "log_config_append"

Group = tuple[str | None, Sequence[cfg.Opt]]


def listed(namespaces: Iterable[str]) -> Iterator[Group]:
    """The options of each namespace by group; None: DEFAULT."""
    found = entry_points(group="oslo.config.opts")
    for namespace in namespaces:
        yield from found[namespace].load()()


def judge(conf: cfg.ConfigOpts, mistakes: Mistakes) -> None:
    """Add what is wrong with the libraries' options in the files of a parsed configuration."""
    theirs = list(listed(LIBRARIES))
    # In a configuration of their own: the libraries register them on ours, when they need them.
    files = cfg.ConfigOpts()
    for group, options in (*opts.groups(), *theirs):  # theirs may refer to ours
        files.register_opts(options, opts.section(group or "DEFAULT"))
    files([], default_config_files=conf.config_file, default_config_dirs=conf.config_dir)
    for group, options in theirs:
        read = values(files, group or "DEFAULT", options, mistakes)
        path = read.get(LOG_CONFIG)
        if path and not os.path.isfile(path):
            note(mistakes, mistake("DEFAULT", LOG_CONFIG, path, "is no file"))


def log_options(conf: cfg.ConfigOpts) -> list[str]:
    """The names of oslo.log's options that a file or the command line sets."""
    names = (option.dest for _, options in listed([LOG]) for option in options)
    places = ((name, conf.get_location(name)) for name in names if name in conf)
    return sorted(name for name, place in places if place and place.location.is_user_controlled)
