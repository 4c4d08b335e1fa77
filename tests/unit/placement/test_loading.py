"""The client that the options of [placement] describe."""

import pytest
from oslo_config import cfg

from rtagent.conf import placement
from rtagent.errors import ConfigError
from rtagent.placement.client import HttpPlacement
from rtagent.placement.loading import load


@pytest.fixture
def configured(tmp_path):
    """Return a function from options of [placement], and other sections, to a configuration."""

    def configure(text, **sections):
        lines = ["[placement]", *text.split("\n")]
        for name, content in sections.items():
            lines += [f"[{name}]", *content.split("\n")]
        path = tmp_path / "rtagent.conf"
        path.write_text("\n".join(lines))
        conf = cfg.ConfigOpts()
        placement.register(conf)
        conf([], default_config_files=[str(path)])
        return conf

    return configure


@pytest.mark.parametrize(
    "options",
    [
        "auth_type = admin_token\nendpoint = http://p\ntoken = t",
        "auth_type = http_basic\nendpoint = http://p\nusername = u\npassword = s",
        "auth_type = none\nendpoint = http://p",
        "auth_type = password\nauth_url = http://k\nusername = u\npassword = s\nproject_name = p",
    ],
)
def test_a_client_is_made_for_every_auth_type(configured, options):
    assert isinstance(load(configured(options)), HttpPlacement)


def test_credentials_may_be_in_another_section(configured):
    conf = configured(
        "auth_section = cloud", cloud="auth_type = admin_token\nendpoint = http://p\ntoken = t"
    )
    assert isinstance(load(conf), HttpPlacement)


def test_without_auth_type_there_is_no_client(configured):
    assert load(configured("region_name = here")) is None


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ("auth_type = nonsense", "auth_type"),
        ("auth_type = password\nusername = u", "auth_url"),
        ("auth_type = none\nendpoint = http://p\nvalid_interfaces = back", "valid_interfaces"),
    ],
)
def test_a_wrong_option_is_named(configured, options, option):
    with pytest.raises(ConfigError) as caught:
        load(configured(options))
    assert caught.value.kwargs["group"] == "placement"
    assert caught.value.kwargs["option"] == option


def test_requests_have_a_default_timeout(configured):
    assert configured("").placement.timeout == 30
    assert configured("timeout = 5").placement.timeout == 5
