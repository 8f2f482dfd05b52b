"""Systems under test: one module each, its file name is its name. Modules that start with _ are shared parts."""
