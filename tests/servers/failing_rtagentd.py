"""rtagentd with a store that passes the failpoint of the environment: `rtagent.testing.failpoints`.

RTAGENT_FAILPOINT=commit.after:3 python -m tests.servers.failing_rtagentd ...
"""

import os
import sys
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Engine

from rtagent.cmd import rtagentd
from rtagent.db.store import SqlStore
from rtagent.ports import Store
from rtagent.service import assembly
from rtagent.testing.failpoints import VARIABLE, Failpoint, FailpointStore


def main(argv: Sequence[str] | None = None) -> int:
    failpoint = Failpoint.parse(os.environ[VARIABLE])

    def store(engine: Engine, **options: Any) -> Store:
        return FailpointStore(SqlStore(engine, failpoint.passed, **options), failpoint)

    vars(assembly)["SqlStore"] = store
    return rtagentd.main(argv)


if __name__ == "__main__":
    sys.exit(main())
