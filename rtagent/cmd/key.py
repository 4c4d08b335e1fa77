"""rtagent key: generate, list and revoke the keys that sign calls and replies."""

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rtagent.cmd.base import NAME_RULE, Action, List, Row, Rows, Show, checked, with_dry_run
from rtagent.cmd.client import Client
from rtagent.cmd.replaced_file import changing, named_file, replace_file
from rtagent.conf.rpc import GROUP, ROLES
from rtagent.errors import ConfigError, RtAgentError
from rtagent.identity.locks import write_new
from rtagent.rpc.trust.credentials import PrivateKey
from rtagent.rpc.trust.keys import (
    PublicKey,
    format_time,
    is_host,
    is_name,
    keys_text,
    read_keys,
    refused,
)

#: The validity of a key in days, and the longest one.
DAYS, MAX_DAYS = 365, 3650
#: The time by which a key is valid before it is made, for servers whose clocks are behind.
EARLIER = timedelta(minutes=5)

#: The option that names the file.
_FILE = GROUP, "keys_file"

_name = checked(is_name, NAME_RULE)
_host = checked(is_host, "must be the [DEFAULT] host of an agent")


class KeyGenerate(Show):
    """Generate a key: the private key in a file of its own, the public key in [rpc] keys_file.

    The private key is never printed. Move its file to the machine of the caller, name it there in
    [rpc] signing_key, and copy the keys file to every server. SIGHUP (`systemctl reload`) makes the
    daemons read both files again.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", type=_name, help="The name of the caller, such as conductor.")
        parser.add_argument(
            "--role",
            choices=ROLES,
            action="append",
            required=True,
            help="What the caller may do. May be repeated.",
        )
        parser.add_argument(
            "--host",
            type=_host,
            help="The [DEFAULT] host of the agent; needed with --role agent, and only with it.",
        )
        parser.add_argument(
            "--days",
            type=_days,
            default=DAYS,
            help=f"For how many days the key is valid. Default: {DAYS}.",
        )
        parser.add_argument(
            "--output",
            type=Path,
            help="The file for the private key, which must not exist. Default: NAME.jwk, here.",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        path = _path(self.app.client)
        key = PrivateKey.generate(parsed_args.name)
        entry = _entry(key, parsed_args)
        private = parsed_args.output or Path(f"{key.name}.jwk")
        with changing(path, *_FILE):
            _add(path, entry, private, key)
        names = ("name", "roles", "host", "not_after", "private_key", "keys_file")
        roles, until = ", ".join(entry.roles), format_time(entry.not_after)
        return names, (entry.name, roles, entry.host, until, str(private), str(path))


class KeyList(List):
    """List the keys of [rpc] keys_file, and whether each one is valid now."""

    nouns = "keys"

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        now = datetime.now(UTC)
        rows = [
            (
                each.name,
                ", ".join(each.roles),
                each.host,
                format_time(each.not_before),
                format_time(each.not_after),
                each.why_unusable(now) == "",
            )
            for each in read_keys(str(_path(self.app.client)))
        ]
        return ("name", "roles", "host", "not_before", "not_after", "valid"), rows


class KeyRevoke(Action):
    """Remove a key from [rpc] keys_file. A daemon accepts the key until it reads the file again, at
    SIGHUP (`systemctl reload`)."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", type=_name, help="The name of the key.")
        with_dry_run(parser, "revoke")

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        path, name = _path(self.app.client), parsed_args.name
        with changing(path, *_FILE):
            keys = read_keys(str(path))
            kept = tuple(each for each in keys if each.name != name)
            if kept == keys:
                raise refused(str(path), f"has no key {name}: rtagent key list shows all")
            if parsed_args.dry_run:
                self.app.LOG.info("%s would be revoked", name)
                return
            replace_file(path, keys_text(kept))
        self.app.LOG.info("%s is revoked; a daemon refuses it after SIGHUP", name)


def _entry(key: PrivateKey, parsed_args: argparse.Namespace) -> PublicKey:
    """Return the entry of a new key. :raises RtAgentError: host and roles do not fit."""
    roles = tuple(dict.fromkeys(parsed_args.role))
    if ("agent" in roles) != (parsed_args.host is not None):
        raise RtAgentError("--host must be given with --role agent, and only with it")
    now = datetime.now(UTC).replace(microsecond=0)
    until = now + timedelta(days=parsed_args.days)
    return key.public(roles, (now - EARLIER, until), parsed_args.host)


def _add(path: Path, entry: PublicKey, private: Path, key: PrivateKey) -> None:
    """Write both files, or none. :raises OSError: ConfigError:"""
    keys: Sequence[PublicKey] = read_keys(str(path)) if path.exists() else ()
    if any(each.name == entry.name for each in keys):
        rule = f"has a key {entry.name}: rtagent key revoke removes it"
        raise refused(str(path), rule)
    _write_private(private, key)
    try:
        replace_file(path, keys_text((*keys, entry)))
    except OSError:
        private.unlink()
        raise


def _write_private(path: Path, key: PrivateKey) -> None:
    """Write a private key that only this user can read. :raises ConfigError:"""
    try:
        write_new(path, key.text(), 0o600)
    except OSError as exc:
        rule = f"cannot be written: {exc.strerror}; --output names another file"
        raise ConfigError(group=GROUP, option="signing_key", value=str(path), rule=rule) from exc


def _path(client: Client) -> Path:
    return named_file(client.settings.rpc.keys_file, *_FILE)


def _days(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= MAX_DAYS):
        raise argparse.ArgumentTypeError(f"{text!r} must be a number from 1 to {MAX_DAYS}")
    return int(text)
