"""Where and how a session was measured: collected from hosts, compared between sessions, and shown as labels.

In: hosts, deployments and session folders. Out: JSON, and verdicts on whether sessions may be compared.
"""
