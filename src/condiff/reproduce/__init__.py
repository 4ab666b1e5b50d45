"""The paper's benchmarks: one protocol per file, and tables and figures of their results."""
