"""Pages to look at: the report of results or of a model, and the diffusion explorer; one file each, no network."""

#: What the explorer shows without data.
EXAMPLES = ("moons", "circles", "digits")
