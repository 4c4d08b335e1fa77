"""Plugins: filters by name, from entry points."""

from __future__ import annotations

import re

import pytest

from rtagent.conf.filter_scheduler import FilterOptions
from rtagent.errors import ConfigError
from rtagent.scheduler import plugins
from rtagent.scheduler.filtering import NAMESPACE, HostFilters


def test_an_unknown_name_is_an_error_that_lists_what_is_installed():
    with pytest.raises(ConfigError) as caught:
        HostFilters.load(FilterOptions(enabled_filters=("ComputeFilter", "RamFilter")))
    message = str(caught.value)
    assert message.startswith("[filter_scheduler] enabled_filters = RamFilter: is not installed")
    assert "AllHostsFilter, ComputeCapabilitiesFilter, ComputeFilter" in message


def test_a_plugin_that_cannot_be_loaded_is_an_error_that_says_why(tmp_path, monkeypatch):
    installed = tmp_path / "other-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1\n")
    entry = "tests.unit.scheduler.nowhere:Filter"
    (installed / "entry_points.txt").write_text(f"[{NAMESPACE}.broken]\nBrokenFilter = {entry}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    expected = f"[filter_scheduler] enabled_filters = BrokenFilter: cannot be loaded from {entry}"
    with pytest.raises(ConfigError, match=f"{re.escape(expected)}.*nowhere"):
        plugins.load(f"{NAMESPACE}.broken", ["BrokenFilter"], "enabled_filters")


def test_cheap_filters_judge_first():
    enabled = ("ServerGroupAffinityFilter", "JsonFilter", "ComputeFilter", "ImagePropertiesFilter")
    assert HostFilters.load(FilterOptions(enabled_filters=enabled)).names == (
        "ComputeFilter",
        "ImagePropertiesFilter",
        "ServerGroupAffinityFilter",
        "JsonFilter",
    )
