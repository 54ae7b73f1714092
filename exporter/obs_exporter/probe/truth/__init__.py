"""A local streaming server whose TTFT, token times and faults are known: the ruler that the probe is held against."""
