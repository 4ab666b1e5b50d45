"""A user's data as numbers."""
