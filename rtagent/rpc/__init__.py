"""The RPC API over oslo.messaging: its methods and schemas, the server, the Python client."""
