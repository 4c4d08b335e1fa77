"""Import what any command may need."""

from importlib.metadata import entry_points

import rtagent.rpc  # noqa: F401  before oslo.messaging, for which it chooses threads
from rtagent.cmd.rtagent import GROUP

for _point in entry_points(group=GROUP):
    _point.load()
