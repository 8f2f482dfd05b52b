"""From a request to a plan: blocks, random orders, and what they cost. Pure functions.

In: a study and what is asked of it. Out: trials in their order.
"""
