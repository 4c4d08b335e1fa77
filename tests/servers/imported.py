"""Import what daemons, commands, Placement and the agents of `tests.crash` import, also what they
import when it is needed.
"""

import gc
from importlib import import_module
from importlib.metadata import entry_points

# What is imported is no garbage. A process that is forked from this one would look through it, and
# get a copy of its memory by that.
gc.disable()
try:
    for _name in (
        "rtagent.rpc",  # before oslo.messaging, for which it chooses threads
        "rtagent.cmd.rtagent",
        "rtagent.cmd.rtagentd",
        "rtagent.cmd.rtagent_scheduler",
        "oslo_messaging._drivers.impl_rabbit",
        "sqlalchemy.dialects.mysql.pymysql",
        "sqlalchemy.dialects.postgresql.psycopg",
        "psycopg",
        "pymysql",
        "tests.servers.failing_rtagentd",
        "tests.servers.placement_app",
        "tests.crash.agent_process",
    ):
        import_module(_name)
    for _point in entry_points(group="rtagent.cli"):
        _point.load()
except ImportError as error:
    # multiprocessing ignores an ImportError, and each start would import everything.
    raise RuntimeError(f"this cannot be imported before processes are forked: {error}") from error
gc.freeze()
gc.enable()
