"""Measurements of the agent against floors that are taken in the same run: tools/bench.

The import chooses threads for oslo.service, which oslo.messaging loads, in the floors' own
processes, too: by itself it takes eventlet, and warns about it.
"""

import rtagent.rpc  # noqa: F401
