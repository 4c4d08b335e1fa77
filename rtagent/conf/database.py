"""[database]: where claims are made durable."""

from __future__ import annotations

from oslo_config import cfg

from rtagent.model.base import Value

GROUP = "database"

OPTS = [
    cfg.StrOpt(
        "connection",
        default="sqlite:///$state_path/rtagent.sqlite",
        secret=True,
        help="""
The SQLAlchemy URL of the database.

The embedded default is a file in the state directory; its schema is made at the first start.
``postgresql+psycopg://USER:PASSWORD@HOST/NAME`` and ``mysql+pymysql://...`` are made ready with
``rtagent db sync``.
""",
    ),
    cfg.IntOpt(
        "operation_timeout",
        default=5,
        min=1,
        max=300,
        help="""
Seconds within which the database must have done one operation (connect, statement and lock
time-outs are set from it). A claim that it does not answer in time is refused with an error that
may be retried; it is never left hanging.
""",
    ),
]


class Database(Value, frozen=True, kw_only=True):
    """:ivar operation_timeout: seconds."""

    connection: str
    operation_timeout: int
