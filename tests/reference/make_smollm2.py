# SPDX-License-Identifier: Apache-2.0
"""Loss of SmolLM2 on tests/golden/smollm2/rows.jsonl, by transformers in fp32 on the dequantised NF4 weights.

    python tests/reference/make_smollm2.py build/release MODEL.gguf > tests/golden/smollm2/loss.txt

The rows are tokenised and masked by ftprep (its own goldens cover that); one line: the mean loss over the
trained tokens. Needs numpy, torch, transformers, gguf.
"""
import json
import os
import subprocess
import sys
import tempfile

import torch
import transformers

sys.path.insert(0, os.path.dirname(__file__))
from nf4_model import load_model


def main():
    build, gguf = sys.argv[1:]
    with tempfile.TemporaryDirectory() as work:
        base, data = os.path.join(work, "base.nf4"), os.path.join(work, "data")
        subprocess.run([f"{build}/ftprep", "quantize", gguf, "--out", base], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([f"{build}/ftprep", "build", "--tokenizer", gguf, "--template", "smollm2", "--max-length",
                        "512", "--out", data, "tests/golden/smollm2/rows.jsonl"], check=True, stdout=subprocess.DEVNULL)
        rows = subprocess.run([f"{build}/ftprep", "inspect", data, "--json"], check=True, stdout=subprocess.PIPE).stdout
        model = load_model(base).eval()
    total, count = 0.0, 0
    for row in map(json.loads, rows.splitlines()):
        labels = torch.tensor(row["labels"])[1:]
        with torch.no_grad():
            logits = model(torch.tensor([row["input_ids"]])).logits[0, :-1]
        total += torch.nn.functional.cross_entropy(logits.double(), labels, ignore_index=-100, reduction="sum").item()
        count += int((labels != -100).sum())
    print(f"{total / count:.9f}  # {count} trained tokens; torch {torch.__version__}, transformers {transformers.__version__}")


main()
