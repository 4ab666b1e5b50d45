"""Every compiled loop, and the vector values that they share."""
