"""The configuration of the daemon: what a reload applies is what was checked."""

import pytest
from oslo_config import cfg

from rtagent.service.configuration import Configuration
from tests.support.provider_files import CLASS, entry, write

RABBIT = "transport_url = rabbit://broker.example/\n[oslo_messaging_rabbit]"


@pytest.fixture
def configuration(tmp_path):
    file = tmp_path / "rtagent.conf"
    files = f"[compute]\nprovider_config_location = {tmp_path}/files\n"
    file.write_text(f"[DEFAULT]\ntransport_url = fake://\nhost = cn1\n{files}")
    return Configuration(cfg.ConfigOpts(), "rtagentd", ["--config-file", str(file)])


def test_provider_file_that_changes_during_a_reload_is_not_applied(configuration, tmp_path):
    """It was not checked against the host. The next reload reads it."""
    write(tmp_path / "files", "a.yaml", entry(None, {CLASS: {"total": 1}}))
    configuration.read()
    candidate = configuration.candidate()

    (tmp_path / "files" / "a.yaml").write_text("[")
    applied = configuration.reload(candidate)

    assert applied.provider_files == candidate.provider_files
    assert len(applied.provider_files.entries) == 1
    with pytest.raises(ExceptionGroup):
        configuration.candidate()


@pytest.mark.parametrize(
    ("line", "mistakes"),
    [
        ("use_syslog = x", ["argument --use_syslog: Invalid Boolean value: x", "rtagent.conf"]),
        ("take_over = true", ["take_over = True: may be given on the command line only"]),
        (f"{RABBIT}\nrpc_conn_pool_size =", ["rpc_conn_pool_size = : must have a value"]),
    ],
)
def test_invalid_option_is_a_mistake(configuration, tmp_path, line, mistakes):
    file = tmp_path / "rtagent.conf"
    file.write_text(f"{file.read_text()}[DEFAULT]\n{line}\n")

    with pytest.raises(ExceptionGroup) as refused:
        configuration.read()

    [error] = refused.value.exceptions
    assert all(mistake in str(error) for mistake in mistakes)
