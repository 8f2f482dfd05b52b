"""One archive with everything that an evaluator, a reader or a later self needs: `infrabench artifact pack`.

It holds the source tree of a commit with the recorded sessions, their tables as the analysis makes them, executed
notebooks where there are some, RO-Crate metadata, licences, checksums, and how to make the tables again.
"""

from infrabench.publish.artifact.writing import PackedArtifact, compare_tables, make_tables, write

__all__ = ["PackedArtifact", "compare_tables", "make_tables", "write"]
