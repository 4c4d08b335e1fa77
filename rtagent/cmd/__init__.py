"""The programs: ``rtagentd``, the daemon, and ``rtagent``, the operator's command line.

Commands are thin: they ask the read API, the database or the RPC client and print the answer. Each
is an entry point of the group ``rtagent.cli``.
"""

import sys

# Libraries import it where it is installed, which takes long, and nothing here runs on it.
sys.modules.setdefault("eventlet", None)  # type: ignore[arg-type]
