"""Serve the WSGI application of a service: ``serve.py MODULE PORT [ARGUMENTS OF THE SERVICE]``."""

import importlib
import sys

import waitress


def main() -> None:
    module, port, *arguments = sys.argv[1:]
    sys.argv = [module.partition(".")[0], *arguments]
    application = importlib.import_module(module).application
    if module.startswith("neutron"):
        from sqlalchemy.orm import configure_mappers

        configure_mappers()  # in threads, the first two requests would do it at the same time
    waitress.serve(application, host="0.0.0.0", port=int(port), threads=6, channel_timeout=300)


if __name__ == "__main__":
    main()
