"""The RPC API over oslo.messaging: its methods and schemas, the server, the Python client.

The libraries below import eventlet where it is installed, and warn of it; nothing here runs on it.
"""

import warnings

from oslo_service import backend

warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")

# oslo.messaging imports oslo.service, whose own choice would be eventlet. A process that has made
# another choice keeps it.
backend.register_backend_default_hook(lambda: backend.BackendType.THREADING)
