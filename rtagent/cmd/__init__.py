"""The programs: ``rtagentd``, the daemon, and ``rtagent``, the operator's command line.

The commands are thin: they ask the read API, the database or the RPC client and print the reply.
Each is an entry point of the group ``rtagent.cli``, in the module named after its first word.
"""

import sys

# It chooses the backend of oslo.service, whose default is that of eventlet. "import rtagent.rpc"
# would take the name of the module rtagent.cmd.rtagent.
from rtagent import rpc  # noqa: F401

# Libraries import eventlet if it is installed, and nothing here uses it. To them, it is not.
sys.modules.setdefault("eventlet", None)  # type: ignore[arg-type]
