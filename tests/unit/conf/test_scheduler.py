"""[scheduler]: the options of the scheduler itself, with Nova's names, defaults and bounds."""

from pathlib import Path

import pytest
from oslo_config import cfg

from rtagent.conf import load
from rtagent.conf.load import read
from rtagent.conf.scheduler import SchedulerOptions
from rtagent.conf.settings import Settings

CONF = """
[DEFAULT]
service_down_time = 90
[scheduler]
max_attempts = 1
max_placement_results = 10
limit_tenants_to_placement_aggregate = true
placement_aggregate_required_for_tenants = true
query_placement_for_image_type_support = true
query_placement_for_availability_zone = false
enable_isolated_aggregate_filtering = true
assume_timeout = 5
request_timeout = 6
start_grace = 0
"""


def settings(directory: Path, text: str) -> Settings:
    file = directory / "rtagent.conf"
    file.write_text(text)
    return read(load.parse(cfg.ConfigOpts(), ["--config-file", str(file)], "rtagent-scheduler"))


def test_defaults(tmp_path):
    assert settings(tmp_path, "").scheduler_options == SchedulerOptions(
        api_address="/var/lib/rtagent/scheduler.sock"
    )


def test_every_option_is_read(tmp_path):
    assert settings(tmp_path, CONF).scheduler_options == SchedulerOptions(
        max_attempts=1,
        max_placement_results=10,
        limit_tenants_to_placement_aggregate=True,
        placement_aggregate_required_for_tenants=True,
        query_placement_for_image_type_support=True,
        query_placement_for_availability_zone=False,
        enable_isolated_aggregate_filtering=True,
        assume_timeout=5,
        request_timeout=6,
        start_grace=0,
        service_down_time=90,
        api_address="/var/lib/rtagent/scheduler.sock",
    )


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max_attempts", "0"),
        ("max_placement_results", "0"),
        ("assume_timeout", "0.5"),
        ("request_timeout", "nan"),
        ("start_grace", "-1"),
        ("enable_isolated_aggregate_filtering", "maybe"),
    ],
)
def test_a_wrong_value_is_refused(tmp_path, option, value):
    with pytest.raises(ExceptionGroup) as caught:
        settings(tmp_path, f"[scheduler]\n{option} = {value}\n")
    (error,) = caught.value.exceptions
    assert str(error).startswith(f"[scheduler] {option} = {value}: ")
