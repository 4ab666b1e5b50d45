"""Results folders as pages to look at."""
