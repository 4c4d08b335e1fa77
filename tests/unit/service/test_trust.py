"""CallerAccess: what a reload puts in force."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from oslo_context.context import RequestContext

from rtagent.conf.settings import SettingsHolder
from rtagent.errors import TooManyRequests
from rtagent.ports import NullReporter
from rtagent.rpc import AGENT
from rtagent.rpc.errors import SignatureInvalid
from rtagent.rpc.methods import TABLES
from rtagent.service.trust import CallerAccess
from tests.support.configurations import parsed, settings
from tests.support.hosts import ManualClock
from tests.support.trust import KeyFiles

METHOD = TABLES[AGENT].methods["get_node"]


@pytest.fixture
def holder(tmp_path: Path) -> SettingsHolder:
    return SettingsHolder(settings(tmp_path))


@pytest.fixture
def callers(tmp_path: Path, holder: SettingsHolder) -> CallerAccess:
    return CallerAccess(AGENT, parsed(tmp_path, ""), holder, ManualClock(), NullReporter())


def call_twice_at_once(callers: CallerAccess) -> None:
    context = RequestContext(user_id="u", roles=["reader"], overwrite=False)
    with ExitStack() as calls:
        for _ in "12":
            calls.enter_context(callers.access.admitted(METHOD, context, {}))


@pytest.mark.parametrize(
    "options, error",
    [
        ("max_calls_per_caller = 1", TooManyRequests),
        ("require_signature = true\nkeys_file = {keys}", SignatureInvalid),
    ],
)
def test_new_options_are_in_force_after_a_reload(
    tmp_path: Path,
    holder: SettingsHolder,
    callers: CallerAccess,
    options: str,
    error: type[Exception],
) -> None:
    call_twice_at_once(callers)
    keys = KeyFiles(tmp_path).path
    holder.current = settings(tmp_path, f"[rpc]\n{options.format(keys=keys)}\n")
    callers.reload()
    with pytest.raises(error):
        call_twice_at_once(callers)
