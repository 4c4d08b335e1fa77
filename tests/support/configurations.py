"""Configurations that a test writes as text."""

from pathlib import Path

import pytest
from oslo_config import cfg

from rtagent.conf import load
from rtagent.conf.settings import Settings
from rtagent.errors import ConfigError


def parsed(directory: Path, text: str) -> cfg.ConfigOpts:
    """The parsed configuration of this text, which is written to ``rtagent.conf``."""
    file = directory / "rtagent.conf"
    file.write_text(text)
    return load.parse(cfg.ConfigOpts(), ["--config-file", str(file)], "rtagentd")


def settings(directory: Path, text: str = "") -> Settings:
    """The settings of this text."""
    return load.read(parsed(directory, text))


def mistakes(directory: Path, text: str) -> list[str]:
    """The sentences of all mistakes in this text."""
    with pytest.raises(ExceptionGroup) as caught:
        settings(directory, text)
    assert all(isinstance(error, ConfigError) for error in caught.value.exceptions)
    return [str(error) for error in caught.value.exceptions]
