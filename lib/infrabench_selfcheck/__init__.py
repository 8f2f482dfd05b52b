"""Is it right? Simulations of known truth, claims of recorded sessions, comparison with bare tools, and overhead.

In: recorded sessions and the whole library below. Out: lists of checks, each with what was expected and what was found.
Nothing below depends on this room.
"""
