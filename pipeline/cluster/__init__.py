"""Steps and tools on a Ray cluster: `data.shards.run_shards` hands their shards to the workers of `engine.py`."""
