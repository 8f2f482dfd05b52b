"""Hosts of one's own made ready for studies: what each lacks, the commands that mend it, and what they changed.

`requirements` asks the plug-ins what a study takes; `plan` asks a host what it has, changing nothing, and turns both
into commands; `apply` runs them and tells what changed. Only packages of Debian and Ubuntu are installed.
"""
