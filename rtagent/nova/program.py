"""rtagent-nova-compute: Nova's nova-compute, with rtagent's tracker in the place of Nova's.

Its command line and its configuration are those of nova-compute. Of rtagent's own configuration
files, which need not exist, it has the read API's options.
"""

from __future__ import annotations

import os
import sys

from rtagent.nova import releases

PROG = "rtagent-nova-compute"


def main() -> int:
    """Run nova-compute until it ends, and return the exit code."""
    try:
        releases.check(releases.installed())
    except releases.UnsupportedNova as error:
        return _refuse(str(error))
    # It chooses between threads and greenlets, and must be imported before anything else of Nova
    # and before what uses threads.
    from nova.cmd import compute

    from rtagent.nova import hook, own_options

    try:
        hook.install(own_options.of_files())
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
