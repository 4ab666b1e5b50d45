"""A user's files as tables, graphs, series and images."""
