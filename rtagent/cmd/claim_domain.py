"""rtagent claim domain: the document of the domain that a claim is for."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from rtagent.cmd.listing import Act
from rtagent.errors import InvalidRequest
from rtagent.model.claim import ATTACH, Claim
from rtagent.virt.libvirt import guest
from rtagent.virt.libvirt.document import BadDocument


class ClaimDomain(Act):
    """Print a domain's document with what a claim gives its guest

    What FILE says of CPUs, cells, pages and devices is replaced by the claim's; all else stays.
    Devices that were attached to the guest stay with it.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("claim", metavar="UUID")
        parser.add_argument("file", metavar="FILE", type=Path, help="The document, of libvirt's.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        claim = _claim(self.world.read("claims", parsed_args.claim)["claim"])
        others = self.world.read("claims", instance=claim.owner_id)["claims"]
        attached = [each for each in map(_claim, others) if each.kind == ATTACH]
        try:
            document = guest.apply(parsed_args.file.read_text(), claim, attached)
        except (BadDocument, OSError, UnicodeDecodeError) as error:
            wrong = {"path": str(parsed_args.file), "message": str(error)}
            raise InvalidRequest(method="claim domain", errors=[wrong]) from error
        self.app.stdout.write(f"{document}\n")


def _claim(document: Mapping[str, Any]) -> Claim:
    return msgspec.convert(document, Claim, strict=False, str_keys=True)
