"""The session folder: written record by record, read, checked, archived, and found by name.

In: records of trials. Out: files with checksums, which no later step changes.
"""
