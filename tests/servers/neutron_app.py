"""Serves Neutron: ``neutron_app.py PORT NEUTRON_CONF``."""

import sys

import waitress

if __name__ == "__main__":
    port, file = sys.argv[1:]
    # What Neutron reads its command line from when its application is imported.
    sys.argv[1:] = ["--config-file", file]
    from neutron.wsgi.api import application
    from sqlalchemy.orm import configure_mappers

    # Or else the first request fails that lists ports: it uses what other tables add to a port.
    configure_mappers()
    waitress.serve(application, host="127.0.0.1", port=int(port), threads=4)
