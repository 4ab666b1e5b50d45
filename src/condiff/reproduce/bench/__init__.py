"""Speed and scale, measured side by side."""
