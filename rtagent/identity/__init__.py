"""The identity of the node and of its writer, and the locks that exclude a second agent."""
