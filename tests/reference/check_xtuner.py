#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds data sets with ftprep for every template of XTuner and compares ids, labels and drops with
XTuner 0.2.0 itself, over varied conversations (xtuner_case.py) and, for some of them, cut at every
border of what is trained, one token before and one behind it. Prints how many samples were compared; the first difference ends it.

usage: python3 tests/reference/check_xtuner.py --json tokenizer.json [--tokenizer PATH]
           [--class Qwen2TokenizerFast] [--bos TEXT] [--eos TEXT] [--seed 1] [--random 300] [--cut 6]
           [--templates a,b] [--specials TEXT,...] [--ftprep build/release/ftprep]
environment: tests/golden/xtuner/README.md. --json is what transformers reads (a
SentencePiece model with --class LlamaTokenizer), --tokenizer (the directory of the tokenizer.json, or the model, by
default) is what ftprep reads. --process runs process_hf_dataset as well.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import transformers

from xtuner_case import CONTENTS, PROMPT_TEMPLATE, as_xtuner_means, conversations, encode, load_tokenizer


def mask_of(labels):
    return "".join("0" if label < 0 else "1" for label in labels)


def build(args, template, rows, max_length, directory):
    """What ftprep keeps: row -> (ids, mask)."""
    path, out = os.path.join(directory, "rows.jsonl"), os.path.join(directory, "data")
    with open(path, "w", encoding="utf-8") as f:
        for messages in rows:
            f.write(json.dumps({"messages": messages}) + "\n")
    specials = "parse" if args.specials else "literal"
    run = subprocess.run([args.ftprep, "build", "--content-specials", specials, "--tokenizer", args.tokenizer, "--template", template, "--max-length",
                          str(max_length), "--too-long", "truncate", "--threads", "2", "--force", "--out", out, path],
                         capture_output=True, text=True)
    if "no sample is left" in run.stderr:
        return {}
    if run.returncode != 0:
        sys.exit(run.stderr)
    dump = subprocess.run([args.ftprep, "inspect", out, "--json"], capture_output=True, text=True, check=True).stdout
    samples = map(json.loads, dump.splitlines())
    return {s["row"]: (s["input_ids"], mask_of(s["labels"])) for s in samples}


def compare(args, template, rows, max_length, directory, expected):
    got = build(args, template, rows, max_length, directory)
    for i, messages in enumerate(rows):
        if got.get(i) != expected[i]:
            print("template", template, "max_length", max_length, json.dumps(messages, ensure_ascii=False))
            sys.exit(f"ftprep {got.get(i)}\nxtuner {expected[i]}")
    return len(rows)


def borders(ids, mask):
    """Where something starts or ends to be trained, and the end: cuts there tell off-by-one errors."""
    return [i for i in range(1, len(ids)) if mask[i] != mask[i - 1]] + [len(ids)]


def process(template, rows, tokenizer, max_length):
    """The same rows through datasets: the kept ones, in order."""
    from datasets import Dataset
    from xtuner.dataset import process_hf_dataset
    from xtuner.dataset.map_fns import openai_map_fn, template_map_fn_factory
    data = Dataset.from_list([{"messages": as_xtuner_means(m)} for m in rows])
    done = process_hf_dataset(data, tokenizer=tokenizer, max_length=max_length, dataset_map_fn=openai_map_fn,
                              template_map_fn=template_map_fn_factory(PROMPT_TEMPLATE[template]), split=None,
                              pack_to_max_length=False, map_num_proc=1, remove_unused_columns=True)
    return [(s["input_ids"], mask_of(s["labels"])) for s in done]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--ftprep", default="build/release/ftprep")
    p.add_argument("--json", required=True)
    p.add_argument("--tokenizer")
    p.add_argument("--class", dest="cls", default="PreTrainedTokenizerFast")
    p.add_argument("--bos")
    p.add_argument("--eos")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--random", type=int, default=300)
    p.add_argument("--cut", type=int, default=6)
    p.add_argument("--specials", help="special tokens, by commas, to spell in messages; built with parse")
    p.add_argument("--templates")
    p.add_argument("--process", action="store_true")
    args = p.parse_args()
    args.tokenizer = args.tokenizer or (os.path.dirname(args.json) if args.json.endswith(".json") else args.json)
    special = {k: v for k, v in (("bos_token", args.bos), ("eos_token", args.eos)) if v}
    tokenizer = load_tokenizer(args.json, getattr(transformers, args.cls), **special)
    names = args.templates.split(",") if args.templates else list(PROMPT_TEMPLATE)
    if args.specials:
        words = args.specials.split(",")
        CONTENTS.extend(words + [f"a {w} b" for w in words] + ["".join(words), f"x{words[0]}", f"{words[-1]}\n"])
    n = n_cut = n_process = 0
    with tempfile.TemporaryDirectory() as d:
        for k, name in enumerate(names):
            rows = [r for r in conversations(args.seed + k, args.random)
                    if name != "minicpm" or not any(m["role"] == "system" and m["content"] for m in r)]
            expected = [encode(name, r, tokenizer, 1 << 20) for r in rows]
            n += compare(args, name, rows, 1 << 20, d, expected)
            short = [r for r, e in zip(rows, expected) if e is not None and len(e[0]) <= 90]
            some = short[k % 7::max(1, len(short) // args.cut)][:args.cut] if args.cut else []
            lengths = {at + k for r in some for at in borders(*encode(name, r, tokenizer, 1 << 20)) for k in (-1, 0, 1)}
            for length in sorted(n for n in lengths if n >= 2):
                n_cut += compare(args, name, some, length, d, [encode(name, r, tokenizer, length) for r in some])
            if args.process:
                kept = [e for e in expected if e is not None]
                assert process(name, rows, tokenizer, 1 << 20) == kept, name
                n_process += len(kept)
            print(f"{name}: equal", flush=True)
    print(f"{len(names)} templates, {n} conversations whole, {n_cut} cut, {n_process} through process_hf_dataset: equal")


main()
