# SPDX-License-Identifier: Apache-2.0
"""Loss and LoRA gradients of a real base against transformers and PEFT, both in fp32 on the same
dequantised weights.

    python tests/reference/check_smollm2_grad.py BASE.nf4 [--tool build/release/tests/tools/train_step]

Exits with 1 unless the loss agrees within 1e-5 and every gradient tensor within 1e-4 (Frobenius norm).
Needs numpy, torch, transformers, peft, gguf, safetensors.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import peft
import torch
from safetensors.torch import load_file

sys.path.insert(0, os.path.dirname(__file__))
from make_model import SEVEN, loss_sum, random_batch
from nf4_model import load_model


def random_adapter(model, directory, rank, rng):
    model = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", r=rank, lora_alpha=rank,
                                                       target_modules=SEVEN))
    for name, p in model.named_parameters():
        if "lora_B" in name:
            p.data = torch.from_numpy(rng.standard_normal(tuple(p.shape)).astype(np.float32)) * 0.02
    model.save_pretrained(directory)
    return model


def relative(a, b):
    return (torch.linalg.norm(a.double() - b.double()) / torch.linalg.norm(b.double())).item()


def ours(options, directory):
    out = subprocess.run([options.tool, "step", options.base, directory + "/adapter", directory + "/batch.json",
                          "--gradients", directory + "/gradients"] + options.flag,
                         check=True, stdout=subprocess.PIPE).stdout
    return json.loads(out)["loss_sum"], load_file(directory + "/gradients/adapter_model.safetensors")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("base")
    parser.add_argument("--tool", default="build/release/tests/tools/train_step")
    parser.add_argument("--flag", action="append", default=[], help="passed to the tool")
    options = parser.parse_args()
    torch.manual_seed(7)
    rng = np.random.default_rng(7)
    with tempfile.TemporaryDirectory() as directory:
        model = load_model(options.base)
        batch = random_batch([97, 64, 31], 0.7, model.config.vocab_size, rng)
        with open(directory + "/batch.json", "w") as f:
            json.dump(batch, f)
        model = random_adapter(model, directory + "/adapter", 16, rng)
        loss, gradients = ours(options, directory)
    expected = loss_sum(model, batch)
    expected.backward()
    error = abs(loss - expected.item()) / expected.item()
    errors = {n: relative(gradients[n.replace(".default", "")], p.grad)
              for n, p in model.named_parameters() if "lora_" in n}
    assert len(errors) == len(gradients)
    worst = max(errors, key=errors.get)
    print(f"loss {loss:.6f}, oracle {expected.item():.6f}: relative {error:.2e}")
    print(f"{len(errors)} gradients: median {np.median(list(errors.values())):.2e}, worst {errors[worst]:.2e} "
          f"({worst})")
    return int(error > 1e-5 or errors[worst] > 1e-4)


if __name__ == "__main__":
    sys.exit(main())
