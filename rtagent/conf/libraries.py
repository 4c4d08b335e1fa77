"""The options of libraries, which are checked with our options before the library reads them."""

import os.path
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import distribution
from importlib.util import find_spec

from oslo_config import cfg

from rtagent.conf import load
from rtagent.conf.options import Mistakes, mistake, note, section, values

#: The libraries whose options the daemon has: entry points of ``oslo.config.opts``, which have the
#: name of their distribution.
LOG = "oslo.log"
REPORTS = "oslo.reports"
LIBRARIES = (LOG, "oslo.messaging", "oslo.policy", REPORTS)

#: The option that names a configuration file of `logging`. The file is read again at each reload.
LOG_CONFIG = "log_config_append"

#: The option that writes to systemd's journal with its fields, and the module that it needs.
JOURNAL, JOURNAL_MODULE = "use_journal", "systemd"

#: The option that names the directory of state reports.
REPORT_GROUP, REPORT_DIRECTORY = "oslo_reports", "log_dir"

#: The option that compresses requests; this agent would refuse its own.
COMPRESSION = "kombu_compression"

Group = tuple[str | None, Sequence[cfg.Opt]]


def listed(namespaces: Iterable[str]) -> Iterator[Group]:
    """Yield the options of each namespace by group; None is DEFAULT."""
    for namespace in namespaces:
        points = distribution(namespace).entry_points
        (found,) = points.select(group="oslo.config.opts", name=namespace)
        yield from found.load()()


def judge(conf: cfg.ConfigOpts, mistakes: Mistakes) -> None:
    """Add the mistakes in the libraries' options in the files of a parsed configuration."""
    theirs = list(listed(LIBRARIES))
    # A separate configuration is used, because the libraries register their options on ours when
    # they need them.
    files = cfg.ConfigOpts()
    for group, options in (*load.own(), *theirs):  # their options may refer to ours
        files.register_opts(options, section(group or "DEFAULT"))
    files([], default_config_files=conf.config_file, default_config_dirs=conf.config_dir)
    for group, options in theirs:
        read = values(files, group or "DEFAULT", options, mistakes)
        path = read.get(LOG_CONFIG)
        if path and not os.path.isfile(path):
            note(mistakes, mistake("DEFAULT", LOG_CONFIG, path, "is not a file"))
        if read.get(JOURNAL) and find_spec(JOURNAL_MODULE) is None:
            rule = (
                "needs the Python package systemd-python: install it, or log to the standard error"
            )
            note(mistakes, mistake("DEFAULT", JOURNAL, "True", rule))
        directory = read.get(REPORT_DIRECTORY) if group == REPORT_GROUP else None
        if directory and not os.path.isdir(directory):
            note(mistakes, mistake(REPORT_GROUP, REPORT_DIRECTORY, directory, "is not a directory"))
        compression = read.get(COMPRESSION)
        if compression:
            rule = "must be unset, because agents refuse compressed messages"
            note(mistakes, mistake(str(group), COMPRESSION, compression, rule))


def log_options(conf: cfg.ConfigOpts) -> list[str]:
    """Return the names of oslo.log's options that a file or the command line sets."""
    names = (option.dest for _, options in listed([LOG]) for option in options)
    places = ((name, conf.get_location(name)) for name in names if name in conf)
    return sorted(name for name, place in places if place and place.location.is_user_controlled)
