"""One archive with everything that an evaluator, a reader or a later self needs: `infrabench archive`.

It holds the source tree of a commit with the recorded sessions, their tables as the analysis makes them, executed
notebooks where there are some, RO-Crate metadata, licences, checksums, and how to make the tables again.
"""

from infrabench.artifact.reproduce import compared, make_tables
from infrabench.artifact.writing import Written, write

__all__ = ["Written", "compared", "make_tables", "write"]
