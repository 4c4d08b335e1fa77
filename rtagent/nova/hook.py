"""rtagent-nova-compute: Nova's nova-compute, with rtagent's tracker in the place of Nova's.

Its command line and its configuration are those of nova-compute. Of rtagent's own configuration
files, which need not exist, it has the read API's options.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from rtagent.nova.releases import UnsupportedNova, check_release, installed

if TYPE_CHECKING:
    from oslo_config import cfg

PROG = "rtagent-nova-compute"


def install(options: cfg.ConfigOpts | None = None) -> None:
    """Let every compute manager that is made from now on have rtagent's tracker.

    Nova's files stay as they are: one name of the module `nova.compute.resource_tracker` is set.

    :param options: rtagent's own, of a program that serves the read API and, with native threads,
        compares the claims with libvirt's domains. None: it does neither.
    :raises UnsupportedNova: the installed Nova is of another release.
    """
    check_release(installed())
    from nova.compute import resource_tracker

    from rtagent.nova.node_service import ServedTracker
    from rtagent.nova.tracker import ResourceTracker

    resource_tracker.ResourceTracker = ResourceTracker
    if options is not None:
        ServedTracker.options = options
        resource_tracker.ResourceTracker = ServedTracker


def main() -> int:
    """Run nova-compute until it ends, and return the exit code."""
    try:
        check_release(installed())
    except UnsupportedNova as error:
        return _refuse(str(error))
    # It chooses between threads and greenlets, and must be imported before anything else of Nova
    # and before what uses threads.
    from nova.cmd import compute

    from rtagent.nova.node_settings import options_of_files

    try:
        install(options_of_files())
    except ExceptionGroup as group:
        return _refuse(*map(str, group.exceptions))
    compute.main()
    return 0


def _refuse(*lines: str) -> int:
    """Print why it does not start, and return the exit code."""
    for line in lines:
        print(f"{PROG}: {line}", file=sys.stderr)
    return os.EX_CONFIG


if __name__ == "__main__":
    sys.exit(main())
