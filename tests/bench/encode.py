#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Single-thread speed of ftprep's tokenizer against Hugging Face tokenizers, in one run.

Both encode the same documents (about 2 kB each) and must give the same number of tokens. Prints one
JSON line: MB per second of processor time of both, and their ratio.

usage: make tests && python3 tests/bench/encode.py --bin build/release --json tokenizer.json
           [--tokenizer PATH] [--text FILE] [--mb 8]
--json is what Hugging Face reads, --tokenizer (the same by default) what ftprep reads. Without --text
the text is the English documentation under /usr/share/doc. needs: tokenizers 0.23.3
"""
import argparse
import glob
import json
import os
import subprocess
import tempfile
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import tokenizers  # noqa: E402

DOCUMENT_BYTES, ROUNDS = 2048, 3


def default_text(limit):
    text = b""
    for name in sorted(glob.glob("/usr/share/doc/**/*", recursive=True)):
        if os.path.isfile(name) and not name.endswith((".gz", ".png", ".svg", ".html")):
            with open(name, "rb") as f:
                part = f.read()
            try:
                part.decode()
            except UnicodeDecodeError:
                continue
            text += part
            if len(text) > limit:
                break
    return text


def documents(text):
    at = 0
    while at < len(text):
        newline = text.find(b"\n", at + DOCUMENT_BYTES)
        end = len(text) if newline < 0 else newline + 1
        yield text[at:end].decode()
        at = end


def hugging_face(tokenizer, docs, n_bytes, rounds):
    best = 0
    for _ in range(rounds):
        started = time.process_time()
        n = sum(len(tokenizer.encode(d, add_special_tokens=False).ids) for d in docs)
        best = max(best, n_bytes / 1e6 / (time.process_time() - started))
    return n, best


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--bin", required=True)
    p.add_argument("--json", required=True)
    p.add_argument("--tokenizer")
    p.add_argument("--text")
    p.add_argument("--mb", type=float, default=8)
    a = p.parse_args()
    limit = int(a.mb * 1e6)
    text = open(a.text, "rb").read() if a.text else default_text(limit)
    text = text[:limit].decode("utf-8", "ignore").encode()
    with tempfile.NamedTemporaryFile() as f:
        f.write(text)
        f.flush()
        out = subprocess.run([f"{a.bin}/tests/tools/bench_tokenize", a.tokenizer or a.json, f.name],
                             check=True, capture_output=True).stdout
    ours = json.loads(out)
    tokenizer = tokenizers.Tokenizer.from_file(a.json)
    n, theirs = hugging_face(tokenizer, list(documents(text)), len(text), ROUNDS)
    assert n == ours["tokens"], (n, ours["tokens"])
    print(json.dumps({"bench": "tokenize", "bytes": len(text), **ours,
                      "tokenizers": tokenizers.__version__, "hf": round(theirs, 2),
                      "ratio": round(ours["warm"] / theirs, 1),
                      "ratio_cold": round(ours["cold"] / theirs, 1)}))


main()
