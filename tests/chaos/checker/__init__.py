"""The checker: decides from a history alone whether the promises were kept.

It imports nothing of rtagent. Its rules are written from the documentation: a defect of the agent
would also be in the checker if the two had code in common.
"""
