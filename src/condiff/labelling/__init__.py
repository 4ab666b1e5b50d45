"""Label in the browser: a journal on disk, a model that follows, and a page on loopback."""
