"""Run rtagent in this process."""

import io
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from rtagent.cmd.rtagent import Shell


class Outcome(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Outcome]


def run(*argv: str) -> Outcome:
    out, err = io.StringIO(), io.StringIO()
    code = Shell(out, err).run(list(argv))
    return Outcome(code, out.getvalue(), err.getvalue())
