"""Imported before LeRobot and PhysicsNeMo: lets torchvision's package of PyPI, which is built for CUDA, be imported beside a torch for
CPUs. Its layers and transforms are Python, and need none of its own operators."""

import torch

if not torch.version.cuda:
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):  # looked up at the import
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
