"""Import what daemons, commands and Placement import, also what they import when it is needed."""

from importlib import import_module
from importlib.metadata import entry_points

from rtagent.cmd.rtagent import GROUP

for _name in (
    "rtagent.rpc",  # before oslo.messaging, for which it chooses threads
    "rtagent.cmd.rtagentd",
    "rtagent.cmd.rtagent_scheduler",
    "oslo_messaging._drivers.impl_rabbit",
    "sqlalchemy.dialects.mysql.pymysql",
    "sqlalchemy.dialects.postgresql.psycopg",
    "psycopg",
    "pymysql",
    "tests.servers.failing_rtagentd",
    "tests.servers.placement_app",
):
    import_module(_name)
for _point in entry_points(group=GROUP):
    _point.load()
