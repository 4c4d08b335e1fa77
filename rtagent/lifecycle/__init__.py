"""The life cycle of claims: transitions and their consequences, attach claims, moves. Pure."""
