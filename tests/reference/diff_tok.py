#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Differential test of `ftprep tokenize` against Hugging Face tokenizers on the same vocabulary.

Ids must be equal in both modes for special tokens, and `ftprep detokenize` must give the bytes that
Hugging Face decodes. Prints the number of strings per group and every difference; exits 1 if any.

usage: python3 tests/reference/diff_tok.py --ftprep build/release/ftprep --json tokenizer.json
           [--tokenizer PATH] [--random 300000] [--seed 1] [--text-bytes 20000000]
needs: tokenizers 0.23.3. --json is what Hugging Face reads; --tokenizer (the same by default) is
what ftprep reads, for example the GGUF file of the same model.
"""
import argparse
import json
import random
import subprocess
import sys
import tempfile

from tokenizers import Tokenizer

from tok_strings import EDGES, every_code_point, random_strings, real_text

def run(ftprep, command, tokenizer, lines, *options):
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as sink:
        source.write(("\n".join(lines) + "\n").encode())
        source.seek(0)
        subprocess.run([ftprep, command, "--tokenizer", tokenizer, *options], stdin=source,
                       stdout=sink, check=True)
        sink.seek(0)
        return sink.read()


class Differ:
    def __init__(self, args):
        self.args = args
        self.hf = Tokenizer.from_file(args.json)
        self.differences = 0
        self.total = 0

    def report(self, mode, text, want, got):
        self.differences += 1
        if self.differences <= 20:
            print(f"DIFFERENT {mode} {text[:200]!r}\n  want {str(want)[:300]}\n  got  {str(got)[:300]}")

    def check(self, mode, texts):
        self.hf.encode_special_tokens = mode == "literal"
        want = [e.ids for e in self.hf.encode_batch(texts, add_special_tokens=False)]
        out = run(self.args.ftprep, "tokenize", self.args.tokenizer,
                  [json.dumps(t) for t in texts], "--json", "--content-specials", mode)
        got = [json.loads(line) for line in out.splitlines()]
        assert len(got) == len(texts), (len(got), len(texts))
        for text, w, g in zip(texts, want, got):
            if w != g:
                self.report(mode, text, w, g)
        return want

    def check_decoded(self, ids):
        want = [d.encode() for d in self.hf.decode_batch(ids, skip_special_tokens=False)]
        self.compare_decoded(ids, want)

    def compare_decoded(self, ids, want):
        """Decoded text may hold newlines, so a difference is found by halving."""
        if self.differences > 20 or not ids:
            return
        out = run(self.args.ftprep, "detokenize", self.args.tokenizer, [" ".join(map(str, i)) for i in ids])
        if out.decode("utf-8", "replace").encode() == b"".join(w + b"\n" for w in want):
            return
        if len(ids) == 1:
            self.report("decode", str(ids[0]), want[0], out)
            return
        half = len(ids) // 2
        self.compare_decoded(ids[:half], want[:half])
        self.compare_decoded(ids[half:], want[half:])

    def group(self, name, texts, batch=20000):
        n = bytes_ = 0
        buffer = []

        def flush():
            for mode in ("literal", "parse"):
                ids = self.check(mode, buffer)
            self.check_decoded(ids)
            buffer.clear()

        for t in texts:
            buffer.append(t)
            n += 1
            bytes_ += len(t.encode())
            if len(buffer) == batch:
                flush()
        if buffer:
            flush()
        self.total += n
        print(f"{name}: {n} strings, {bytes_} bytes, {self.differences} differences so far", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--ftprep", required=True)
    p.add_argument("--json", required=True)
    p.add_argument("--tokenizer")
    p.add_argument("--random", type=int, default=300000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--text-bytes", type=int, default=20_000_000)
    args = p.parse_args()
    args.tokenizer = args.tokenizer or args.json
    d = Differ(args)
    rng = random.Random(args.seed)
    vocab = d.hf.get_vocab()
    words = [w for w in (d.hf.decode([i], skip_special_tokens=False) for i in vocab.values()) if w]
    specials = [t.content for t in d.hf.get_added_tokens_decoder().values()] or ["<s>"]
    d.group("edges", EDGES)
    d.group("single ids", [w for w in words])
    d.group("random", random_strings(rng, args.random, words, specials))
    d.group("code points", every_code_point(), 100000)
    d.group("real text", real_text(args.text_bytes), 5000)
    print(f"{d.total} strings in two modes, {d.differences} differences")
    sys.exit(d.differences > 0)


main()
