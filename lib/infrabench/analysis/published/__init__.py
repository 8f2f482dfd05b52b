"""The papers' own numbers, what does not add up in them, and where they stand beside ours."""
