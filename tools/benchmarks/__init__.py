"""Speed and memory: python tools/benchmarks/run.py NAME."""
