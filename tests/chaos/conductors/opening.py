"""How a conductor of a chaos run is opened."""

from collections.abc import Iterator
from contextlib import contextmanager

import rtagent.rpc  # noqa: F401  before oslo.messaging: it selects the threading backend

# isort: split
from oslo_config import cfg
from oslo_context.context import RequestContext

from rtagent.conductor.conductor import Conductor
from rtagent.conductor.engine import Listener
from rtagent.conductor.opening import open_conductor
from rtagent.conf import load
from rtagent.embedded import SystemClock

#: A line in the log of a conductor about a step begins with this.
STEP = "step "
#: A conductor ends after its operation when its directory has a file with this name.
ENDS = "ends"


@contextmanager
def opened(config_file: str, listener: Listener = lambda operation: None) -> Iterator[Conductor]:
    """Open a conductor with a configuration, for the length of a block."""
    conf = load.parse(cfg.ConfigOpts(), ["--config-file", config_file], "conductor")
    with open_conductor(
        conf,
        load.read_options(conf),
        clock=SystemClock(),
        context=RequestContext(user_id="chaos", roles=["conductor"], overwrite=False),
        timeout=5.0,
        listener=listener,
    ) as conductor:
        yield conductor
