"""Protocols that measure, one a file, and the figures of what they measured."""
