"""The RPC API over oslo.messaging: its methods and schemas, the server, the Python client.

Some libraries below import eventlet where it is installed, and warn about it. Nothing here uses it.
"""

import warnings

from oslo_service import backend

warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")

# oslo.messaging imports oslo.service, whose default backend is eventlet. If the process has chosen
# a backend already, that one stays.
backend.register_backend_default_hook(lambda: backend.BackendType.THREADING)
