"""The programs: ``rtagentd``, the daemon, and ``rtagent``, the operator's command line.

The commands are thin: they ask the read API, the database or the RPC client and print the reply.
Each is an entry point of the group ``rtagent.cli`` in setup.cfg.
"""

import sys
import warnings

# It chooses the backend of oslo.service, whose default is that of eventlet. "import rtagent.rpc"
# would take the name of the module rtagent.cmd.rtagent.
from rtagent import rpc  # noqa: F401

# Libraries import eventlet if it is installed, and nothing here uses it. To them, it is not.
sys.modules.setdefault("eventlet", None)  # type: ignore[arg-type]
# They import what guesses encodings, too: 3 MiB of memory. Without it, what says no encoding counts
# as UTF-8, which Placement and Keystone speak.
for _name in ("chardet", "charset_normalizer"):
    sys.modules.setdefault(_name, None)  # type: ignore[arg-type]
warnings.filterwarnings("ignore", "Unable to find acceptable character detection")
