"""rtagent-nova-compute: Nova's nova-compute, with rtagent's tracker in the place of Nova's.

Its command line and its configuration are those of nova-compute.
"""

from __future__ import annotations

import os
import sys

from rtagent.nova import hook, releases

PROG = "rtagent-nova-compute"


def main() -> int:
    """Run nova-compute until it ends, and return the exit code."""
    try:
        releases.check(releases.installed())
    except releases.UnsupportedNova as error:
        print(f"{PROG}: {error}", file=sys.stderr)
        return os.EX_CONFIG
    # It chooses between threads and greenlets, and must be imported before anything else of Nova.
    from nova.cmd import compute

    hook.install()
    compute.main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
