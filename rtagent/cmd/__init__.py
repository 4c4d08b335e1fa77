"""The programs: ``rtagentd``, the daemon, and ``rtagent``, the operator's command line.

The commands are thin: they ask the read API, the database or the RPC client and print the reply.
Each is an entry point of the group ``rtagent.cli``, in the module named after its first word.
"""

import os

# Libraries import eventlet if it is installed, and nothing here uses it. This skips the part of the
# import that takes longest.
os.environ.setdefault("EVENTLET_NO_GREENDNS", "yes")
