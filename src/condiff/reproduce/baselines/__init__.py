"""The methods that COIN is compared with, and COIN itself under the same protocols: one method a file."""
