"""What a notebook calls: requests, sessions, tables and figures; the live display, the start page and JupyterLab.

In: parameters of a cell, of papermill or of the command line. Out: what the cell shows, and files below ``out``.
"""
