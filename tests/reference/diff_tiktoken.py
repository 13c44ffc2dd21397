#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ftprep tokenize on rank files and tekken.json against tiktoken and mistral-common.

Every code point in context, edge cases and seeded random strings, as ordinary text and with special
tokens parsed. Stops at the first difference.

usage: diff_tiktoken.py --ftprep build/release/ftprep [--random N] [--seed S] [--code-points] NAME=FILE...
  NAME: llama3, llama4, qwen, qwen3.5, cl100k, o200k (rank files) or tekken (a tekken.json)
"""
import argparse
import base64
import json
import random
import subprocess
import sys

import tiktoken
import tiktoken_ext.openai_public as openai

import tok_strings

C = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = C + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + TAIL
QWEN = LLAMA3.replace("{1,3}", "")
PATTERNS = {
    "llama3": LLAMA3, "qwen": QWEN,
    "qwen3.5": QWEN.replace(r"\p{L}+", r"[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]"),
}
# Special tokens that the strings hold, and the last one of each list.
SPECIALS = {
    "llama3": {"<|begin_of_text|>": 128000, "<|eot_id|>": 128009, "<|reserved_special_token_245|>": 128255},
    "llama4": {"<|begin_of_text|>": 200000, "<|eot|>": 200008, "<|image|>": 200090,
               "<|reserved_special_token_903|>": 202047},
    "qwen": {"<|endoftext|>": 151643, "<|im_start|>": 151644, "<|im_end|>": 151645, "<|extra_204|>": 151850},
    "qwen3.5": {"<|endoftext|>": 248044, "<|im_start|>": 248045, "<|im_end|>": 248046, "<|file_sep|>": 248065,
                "</think>": 248069},
    "cl100k": {"<|endoftext|>": 100257, "<|endofprompt|>": 100276},
    "o200k": {"<|endoftext|>": 199999, "<|endofprompt|>": 200018},
}


def pattern_of(name):
    if name in PATTERNS:
        return PATTERNS[name]
    # The functions of tiktoken would download their ranks: only the pattern is wanted.
    real, openai.load_tiktoken_bpe = openai.load_tiktoken_bpe, lambda *a, **k: {}
    try:
        return {"cl100k": openai.cl100k_base, "o200k": openai.o200k_base,
                "llama4": openai.o200k_base}[name]()["pat_str"]
    finally:
        openai.load_tiktoken_bpe = real


def reference(name, path):
    """(encode ordinary, encode with specials, special strings)"""
    if name == "tekken":
        data = json.load(open(path))
        config = data["config"]
        n = config["default_num_special_tokens"]
        ranks = {base64.b64decode(v["token_bytes"]): v["rank"] for v in data["vocab"]
                 if v["rank"] < config["default_vocab_size"] - n}
        enc = tiktoken.Encoding(name, pat_str=config["pattern"], mergeable_ranks=ranks, special_tokens={})
        return lambda t: [i + n for i in enc.encode_ordinary(t)], None, []
    ranks = {}
    for line in open(path, "rb"):
        if line.strip():
            token, rank = line.split()
            ranks[base64.b64decode(token)] = int(rank)
    specials = SPECIALS[name]
    enc = tiktoken.Encoding(name, pat_str=pattern_of(name), mergeable_ranks=ranks, special_tokens=specials)
    return enc.encode_ordinary, lambda t: enc.encode(t, allowed_special="all"), list(specials)


def ours(ftprep, path, mode, texts):
    lines = "".join(json.dumps(t, ensure_ascii=False) + "\n" for t in texts)
    out = subprocess.run([ftprep, "tokenize", "--json", "--content-specials", mode, "--tokenizer", path],
                         input=lines.encode(), stdout=subprocess.PIPE, check=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def compare(ftprep, name, path, mode, encode, texts):
    n, batch = 0, []

    def flush():
        for text, got in zip(batch, ours(ftprep, path, mode, batch), strict=True):
            want = encode(text)
            if got != want:
                sys.exit(f"{name} {mode}: {ascii(text)}\n  got      {got}\n  expected {want}")
        batch.clear()

    for text in texts:
        batch.append(text)
        n += 1
        if len(batch) == 20000:
            flush()
    flush()
    return n


def main():
    p = argparse.ArgumentParser()
    p.add_argument("files", nargs="+")
    p.add_argument("--ftprep", required=True)
    p.add_argument("--random", type=int, default=20000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--code-points", action="store_true")
    a = p.parse_args()
    for spec in a.files:
        name, path = spec.split("=", 1)
        ordinary, parsing, specials = reference(name, path)
        rng = random.Random(f"{a.seed} {name}")
        words = ["Hello", " world", "don't", "I'LL", " eBay", "NaOH", "\u4e2d\u6587", " Vi\u1ec7t", "12345", "\n\n"]
        texts = tok_strings.EDGES + list(tok_strings.random_strings(rng, a.random, words, specials or ["<s>"]))
        n = compare(a.ftprep, name, path, "literal", ordinary, texts)
        if parsing:
            n += compare(a.ftprep, name, path, "parse", parsing, texts)
        if a.code_points:
            n += compare(a.ftprep, name, path, "literal", ordinary, tok_strings.every_code_point())
        print(f"{name}: {n} strings, no difference", flush=True)


main()
