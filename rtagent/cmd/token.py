"""rtagent token: create, list and revoke the tokens that may read over TCP."""

import argparse
from pathlib import Path

from rtagent.api.guard import ROLES, is_name, new_token, read_tokens
from rtagent.cmd.base import NAME_RULE, Action, List, Row, Rows, Text, checked, with_dry_run
from rtagent.cmd.client import Client
from rtagent.cmd.replaced_file import changing, named_file, replace_file
from rtagent.errors import ConfigError

#: The option that names the file.
_FILE = "api", "tokens_file"

_name = checked(is_name, NAME_RULE)


class TokenCreate(Text):
    """Create a token, add its digest to [api] tokens_file, and print the token once.

    SIGHUP (`systemctl reload`) makes the daemons read the file again.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", type=_name, help="The name of the reader, such as prometheus.")
        parser.add_argument("--role", choices=ROLES, default=ROLES[0], help="Default: reader.")

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        path = _path(self.app.client)
        text, token = new_token(parsed_args.name, parsed_args.role)
        with changing(path, *_FILE):
            tokens = read_tokens(str(path)) if path.exists() else ()
            if any(each.name == token.name for each in tokens):
                raise _refused(path, f"has a token {token.name}: rtagent token revoke removes it")
            replace_file(path, "".join(each.line() for each in (*tokens, token)))
        return ("name", "role", "token"), (token.name, token.role, text)


class TokenList(List):
    """List the names and roles of the tokens."""

    nouns = "tokens"

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        tokens = read_tokens(str(_path(self.app.client)))
        return ("name", "role"), [(each.name, each.role) for each in tokens]


class TokenRevoke(Action):
    """Remove a token from [api] tokens_file. The daemons accept it until SIGHUP."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", type=_name, help="The name of the token.")
        with_dry_run(parser, "revoke")

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        path, name = _path(self.app.client), parsed_args.name
        with changing(path, *_FILE):
            tokens = read_tokens(str(path))
            kept = tuple(each for each in tokens if each.name != name)
            if kept == tokens:
                raise _refused(path, f"has no token {name}: rtagent token list shows all")
            if parsed_args.dry_run:
                (token,) = set(tokens).difference(kept)
                self.app.LOG.info("%s (%s) would be revoked", token.name, token.role)
                return
            replace_file(path, "".join(each.line() for each in kept))
        self.app.LOG.info("%s is revoked; a daemon refuses it after SIGHUP", name)


def _path(client: Client) -> Path:
    return named_file(client.settings.api.tokens_file, *_FILE)


def _refused(path: Path, rule: str) -> ConfigError:
    group, option = _FILE
    return ConfigError(group=group, option=option, value=str(path), rule=rule)
