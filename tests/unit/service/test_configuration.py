"""The configuration of the daemon: what a reload applies is what was checked."""

import pytest
from oslo_config import cfg

from rtagent.service.configuration import Configuration
from tests.support.provider_files import CLASS, entry, write


@pytest.fixture
def configuration(tmp_path):
    file = tmp_path / "rtagent.conf"
    file.write_text(
        "[DEFAULT]\ntransport_url = fake://\nhost = cn1\n"
        f"[compute]\nprovider_config_location = {tmp_path}/files\n"
    )
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


def test_invalid_option_of_the_log_is_a_mistake_that_names_the_file(configuration, tmp_path):
    file = tmp_path / "rtagent.conf"
    file.write_text(f"{file.read_text()}[DEFAULT]\nuse_syslog = x\n")

    with pytest.raises(ExceptionGroup) as refused:
        configuration.read()

    [error] = refused.value.exceptions
    assert "argument --use_syslog: Invalid Boolean value: x" in str(error)
    assert str(file) in str(error)


def test_taking_a_node_over_is_allowed_on_the_command_line_only(configuration, tmp_path):
    file = tmp_path / "rtagent.conf"
    file.write_text(f"{file.read_text()}[DEFAULT]\ntake_over = true\n")

    with pytest.raises(ExceptionGroup) as refused:
        configuration.read()

    [error] = refused.value.exceptions
    assert "take_over = True: may be given on the command line only" in str(error)
