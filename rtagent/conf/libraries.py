"""Options that libraries read by themselves: judged with ours, before they trip a library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import entry_points

from oslo_config import cfg

from rtagent.conf import opts
from rtagent.conf.reading import Mistakes, values

#: Whose options the daemon has beside its own (entry points of ``oslo.config.opts``).
LIBRARIES = ("oslo.log", "oslo.messaging")

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
        values(files, group or "DEFAULT", options, mistakes)
