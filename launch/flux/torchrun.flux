#!/bin/bash
# Flux (El Capitan, Tuolumne): one reader on each node, and torchrun beside it, as two steps.
#
#     flux batch -N 4 --exclusive launch/flux/torchrun.flux run.yaml train.py [ARGUMENT...]
#
# Adapt: trainers a node, time, the lines that load your environment. penstock-run and torchrun must be in PATH.
# Each step counts as one core of a node: a node needs two that nothing else has.
#flux: --job-name=penstock
#flux: --time-limit=24h
set -euo pipefail
config=$1 script=$2
shift 2
exec penstock-run -c "$config" --torchrun "${TRAINERS_PER_NODE:-4}" -- "$script" "$@"
