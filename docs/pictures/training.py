"""The training that docs/pictures/trace.py traces: training.py FILE writes torch.profiler's trace."""
import sys

import torch

import penstock

model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4096, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
torch.set_num_threads(1)
with penstock.connect() as loader, torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
    for batch in loader:
        with torch.profiler.record_function("train step"):
            optimizer.zero_grad()
            model(batch.torch("data").float()).square().mean().backward()
            optimizer.step()
profile.export_chrome_trace(sys.argv[1])
