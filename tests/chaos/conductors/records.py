"""What conductors of a chaos run share: the servers, and how a conductor is opened."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import rtagent.rpc  # noqa: F401  before oslo.messaging: it selects the threading backend

# isort: split
from oslo_config import cfg
from oslo_context.context import RequestContext

from rtagent.conductor.conductor import Conductor
from rtagent.conductor.engine import Listener
from rtagent.conductor.opening import open_conductor
from rtagent.conf import load, settings
from rtagent.embedded import SystemClock
from rtagent.model.flavor import Flavor

#: A line in the log of a conductor about a step begins with this.
STEP = "step "
#: How many servers there are at most.
SERVERS = 3
FLAVORS = tuple(Flavor(vcpus=size, memory_mb=256 * size, root_gb=1) for size in (1, 2))


def server_uuids(seed: str) -> list[str]:
    """Return the uuids of all servers of a run."""
    rng = random.Random(f"servers {seed}")
    return [str(UUID(int=rng.getrandbits(128), version=4)) for _ in range(SERVERS)]


@contextmanager
def opened(config_file: str, listener: Listener = lambda operation: None) -> Iterator[Conductor]:
    """Open a conductor with a configuration, for the length of a block."""
    conf = load.parse(cfg.ConfigOpts(), ["--config-file", config_file], "conductor")
    with open_conductor(
        conf,
        settings.read_options(conf),
        clock=SystemClock(),
        context=RequestContext(user_id="chaos", roles=["conductor"], overwrite=False),
        timeout=5.0,
        listener=listener,
    ) as conductor:
        yield conductor
