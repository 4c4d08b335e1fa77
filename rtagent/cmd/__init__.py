"""The programs: ``rtagentd``, the daemon, and ``rtagent``, the operator's command line.

Commands are thin: they ask the read API, the database or the RPC client and print the answer. Each
is an entry point of the group ``rtagent.cli``.
"""

import os

# Libraries import eventlet where it is installed, and nothing here runs on it: without the part
# that takes longest.
os.environ.setdefault("EVENTLET_NO_GREENDNS", "yes")
