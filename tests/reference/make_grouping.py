#!/usr/bin/env python3
"""Writes tests/golden/grouping/xtuner.txt: statistics of XTuner's LengthGroupedSampler over many
seeds, for a set of lengths given by a formula. test_loader compares ours with them.

    python tests/reference/make_grouping.py > tests/golden/grouping/xtuner.txt

Needs xtuner 0.2.0 and torch."""

import sys

import numpy
import torch

from xtuner.dataset.samplers.length_grouped import get_length_grouped_indices

N, STEP, MICRO, SEEDS = 1000, 16, 4, 400
lengths = [16 + (i * 2654435761 % 2**32) % 997 for i in range(N)]
group = max(1, min(N // (4 * STEP), 50)) * STEP


def padding(order):
    room = sum(max(lengths[i] for i in order[k:k + MICRO]) * len(order[k:k + MICRO]) for k in range(0, N, MICRO))
    return 1 - sum(lengths) / room


waste, positions = [], []
for seed in range(SEEDS):
    generator = torch.Generator()
    generator.manual_seed(seed)
    order = get_length_grouped_indices(lengths, group, generator=generator)
    waste.append(padding(order))
    positions.append([lengths[i] for i in order])
positions = numpy.array(positions, dtype=float)
print(f"# XTuner 0.2.0 LengthGroupedSampler, torch {torch.__version__}: made by {sys.argv[0]}")
print(f"# {N} lengths, steps of {STEP}, groups of {group}, {SEEDS} seeds: what, mean, standard deviation")
print(f"padding {numpy.mean(waste):.6f} {numpy.std(waste):.6f}")
for p in [0, 1, 2, group // 2, group - 1, group, group + 1, 2 * group, N // 2, N - 1]:
    print(f"{p} {positions[:, p].mean():.4f} {positions[:, p].std():.4f}")
