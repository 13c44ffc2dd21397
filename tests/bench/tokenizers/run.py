#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ftprep's tokenizer against its peers, one thread, from a cold start: one JSON line per cell.

Each cell is a vocabulary, a text and a size. Both sides encode the same documents (about 2 kB) and
hold all ids; rounds alternate, each in a fresh process, so that caches start empty; the medians of
processor time count, loading does not. `same` tells whether the number of ids agrees.

usage: make tests && python3 tests/bench/tokenizers/run.py --bin build/release --vocab models/vocab
           --texts DIRECTORY [--mb 20,200] [--rounds 3] [NAME...]
--texts is what corpus.py wrote. A text too small is repeated, its documents in another order.
needs: gigatoken 0.10.0, tokenizers 0.23.3, sentencepiece 0.2.3
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time

DOCUMENT_BYTES = 2048
# Name of a cell's vocabulary: file for ftprep, peer, file for the peer. What a slow peer encodes is
# cut to 4 MB for both sides.
CELLS = {
    "llama3": ("llama3.json", "gigatoken", "llama3.json"),
    "qwen2": ("qwen2.json", "gigatoken", "qwen2.json"),
    "deepseek3": ("deepseek3.json", "gigatoken", "deepseek3.json"),
    "mistral1": ("mistral1.json", "gigatoken", "mistral1.json"),
    "mistral3": ("mistral3.json", "gigatoken", "mistral3.json"),
    "deepseek2": ("deepseek2.json", "tokenizers", "deepseek2.json"),
    "smollm2": ("smollm2.json", "tokenizers", "smollm2.json"),
    "mistral1-spm": ("mistral1.model", "sentencepiece", "mistral1.model"),
    "botchan": ("botchan.model", "sentencepiece", "botchan.model"),
}
SLOW = {"tokenizers": 4, "sentencepiece": 8}


def documents(text):
    at = 0
    while at < len(text):
        newline = text.find(b"\n", at + DOCUMENT_BYTES)
        end = len(text) if newline < 0 else newline + 1
        yield text[at:end]
        at = end


def sized_text(path, n_bytes, out):
    with open(path, "rb") as f:
        text = f.read()
    parts = list(documents(text))
    repeated, rng = text, random.Random(1)
    while len(repeated) < n_bytes:
        rng.shuffle(parts)
        repeated += b"".join(parts)
    end = repeated.find(b"\n", n_bytes - 1) + 1
    with open(out, "wb") as f:
        f.write(repeated[:end or len(repeated)])


def gigatoken(vocabulary, docs):
    import gigatoken as g
    tokenizer = g.Tokenizer(vocabulary)
    started = time.process_time()
    rows = tokenizer.encode_batch(docs, parallel=False)
    seconds = time.process_time() - started
    import awkward
    return seconds, int(awkward.sum(awkward.num(rows)))


def hugging_face(vocabulary, docs):
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import tokenizers
    tokenizer = tokenizers.Tokenizer.from_file(vocabulary)
    docs = [d.decode() for d in docs]
    started = time.process_time()
    rows = tokenizer.encode_batch_fast(docs, add_special_tokens=False)
    return time.process_time() - started, sum(len(r.ids) for r in rows)


def sentencepiece(vocabulary, docs):
    import sentencepiece as s
    processor = s.SentencePieceProcessor(model_file=vocabulary)
    docs = [d.decode() for d in docs]
    started = time.process_time()
    n = sum(len(processor.encode(d)) for d in docs)
    return time.process_time() - started, n


PEERS = {"gigatoken": gigatoken, "tokenizers": hugging_face, "sentencepiece": sentencepiece}


def peer_process(peer, vocabulary, path):
    """One cold round, in a process of its own."""
    with open(path, "rb") as f:
        docs = list(documents(f.read()))
    seconds, n = PEERS[peer](vocabulary, docs)
    print(json.dumps({"seconds": seconds, "tokens": n}))


def run(command):
    out = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    return json.loads(out.splitlines()[-1])


def cell(args, name, text, mb):
    ours, peer, theirs = CELLS[name]
    path = os.path.join(args.scratch, f"{text}-{mb}.txt")
    if not os.path.exists(path):
        sized_text(os.path.join(args.texts, f"{text}.txt"), int(mb * 1e6), path)
    size = os.path.getsize(path) / 1e6
    mine, other = [], []
    for _ in range(args.rounds):
        mine.append(run([f"{args.bin}/tests/tools/bench_tokenize", os.path.join(args.vocab, ours), path, "0"]))
        other.append(run([sys.executable, __file__, "--peer", peer, os.path.join(args.vocab, theirs), path]))
    fast = statistics.median(m["cold"] for m in mine)
    slow = size / statistics.median(o["seconds"] for o in other)
    print(json.dumps({"vocabulary": name, "text": text, "mb": mb, "ftprep": round(fast, 1), "peer": peer,
                      "peer_mb_s": round(slow, 1), "ratio": round(fast / slow, 2),
                      "same": mine[0]["tokens"] == other[0]["tokens"]}), flush=True)


def main():
    if sys.argv[1:2] == ["--peer"]:
        return peer_process(*sys.argv[2:5])
    p = argparse.ArgumentParser()
    p.add_argument("--bin", required=True)
    p.add_argument("--vocab", required=True)
    p.add_argument("--texts", required=True)
    p.add_argument("--scratch", default="build/bench")
    p.add_argument("--mb", default="20,200")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("names", nargs="*")
    args = p.parse_args()
    os.makedirs(args.scratch, exist_ok=True)
    for name in args.names or CELLS:
        for text in ("en", "code", "zh"):
            limit = SLOW.get(CELLS[name][1])
            for mb in [limit] if limit else [int(m) for m in args.mb.split(",")]:
                cell(args, name, text, mb)


main()
