"""The RPC API over oslo.messaging: its methods and schemas, the server, the Python client.

Each topic has the queues of the servers of one API. Some libraries below import eventlet where it
is installed, and warn about it. Nothing here uses it.
"""

import warnings
from collections.abc import Mapping

from oslo_service import backend

#: Calls and casts reach one agent, by its host; a fanout cast reaches all agents.
AGENT = "rtagent"
#: Calls reach any scheduler; a fanout cast reaches all schedulers.
SCHEDULER = "scheduler"

#: The version of each API that clients send: every release since 0.2.0 serves it.
VERSIONS: Mapping[str, str] = {AGENT: "1.9", SCHEDULER: "1.3"}

warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")

# oslo.messaging imports oslo.service, whose default backend is eventlet. If the process has chosen
# a backend already, that one stays.
backend.register_backend_default_hook(lambda: backend.BackendType.THREADING)
