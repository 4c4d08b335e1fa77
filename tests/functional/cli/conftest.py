"""Commands on the agent of a module, which its fixture ``agent`` starts."""

import pytest

from tests.functional.cli.shell import Run, run
from tests.servers.daemon import Daemon


@pytest.fixture
def rtagent(agent: Daemon) -> Run:
    return lambda *argv: run("--config-file", str(agent.config_file), *argv)
