"""Platforms: what is measured, and where: systems under test, clusters, stores and the embedded lab, as plug-ins.

In: hosts and sites of `infrabench`. Out: systems that the registry finds by name, and `provider` for what sites ask.
Nothing of `infrabench` needs this package to read, analyse or report what was measured.
"""
