"""Documents as real systems gave them."""

from pathlib import Path


def read(name: str) -> str:
    """A document, by its path in this directory."""
    return (Path(__file__).parent / name).read_text()
