"""A trainer under torch.profiler: profiled_trainer.py FILE. Each next() is inside a range called "outer"."""

import sys

import torch

import penstock

with penstock.connect() as loader:
    batches = iter(loader)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        batch = True
        while batch is not None:
            with torch.profiler.record_function("outer"):
                batch = next(batches, None)
            torch.ones(1000).sum()
    profile.export_chrome_trace(sys.argv[1])
