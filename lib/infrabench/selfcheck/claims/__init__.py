"""Claims: what the recorded studies say, one row each, and whether it holds on this machine now.

Two levels. *Re-analysis*: the recorded numbers come out of the recorded raw output again, to the last digit; seconds,
anywhere. *Re-measurement*: a session that was measured here says the same as the recorded one, by the rule in
`remeasurement`. No claim is typed: sentences are made from numbers that were written down when a session was recorded
(`recorded_numbers`).
"""
