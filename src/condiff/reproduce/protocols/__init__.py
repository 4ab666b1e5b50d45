"""The paper's applications, one protocol a file."""
