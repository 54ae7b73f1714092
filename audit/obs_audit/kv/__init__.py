"""``obs-audit kv``: bytes a token takes in the KV cache, from a model's config.json, checked against the engine.

``kinds`` and ``shape`` read what a config says of each layer's cache, ``arithmetic`` turns it into bytes and
capacities, ``checks`` holds them against the engine's own start-up lines, ``report`` writes it down, ``command`` is the
command line.
"""
