"""One metrics schema for LLM serving stacks: scrape, map, derive, publish, and say how each value is known."""

from obs_exporter._version import __version__

__all__ = ["__version__"]
