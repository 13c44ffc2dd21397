#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Differential test of `ftprep tokenize` against SentencePiece on the same .model files.

Ids must be equal, and `ftprep detokenize` must give the text that SentencePiece decodes. Prints the
number of strings per group and every difference; exits 1 if any.

usage: python3 tests/reference/diff_spm.py --ftprep build/release/ftprep [--random 100000]
           [--seed 1] [--code-points] [--text-bytes 5000000] MODEL...
needs: sentencepiece 0.2.3
"""
import argparse
import json
import random
import subprocess
import sys
import tempfile

import sentencepiece

from tok_strings import ALPHABETS, EDGES, every_code_point, real_text


def run(ftprep, command, tokenizer, lines):
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as sink:
        source.write(("\n".join(lines) + "\n").encode())
        source.seek(0)
        subprocess.run([ftprep, command, "--tokenizer", tokenizer, "--json"], stdin=source,
                       stdout=sink, check=True)
        sink.seek(0)
        return [json.loads(line) for line in sink.read().splitlines()]


def random_strings(rng, n, words):
    code_points = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    low = [c for c in code_points if c < 0x3000]
    spaces = [" ", "\n", "\t", "  ", "\u2581", "\u3000", "\u00a0", "\u2581\u2581"]

    def piece():
        kind = rng.randrange(11)
        if kind < 4:
            return rng.choice(words)
        if kind == 4:
            return rng.choice(words)[:rng.randrange(1, 4)]
        if kind == 5:
            return chr(rng.choice(code_points)) * rng.randrange(1, 4)
        if kind == 6:
            return "".join(chr(rng.choice(low)) for _ in range(rng.randrange(1, 8)))
        if kind == 7:
            return rng.choice(spaces) * rng.randrange(1, 5)
        if kind == 8:
            return rng.choice("aeitonrs .") * rng.randrange(1, 40)
        alphabet = rng.choice(ALPHABETS)
        return "".join(rng.choice(alphabet) for _ in range(rng.randrange(1, 20)))

    for _ in range(n):
        yield "".join(piece() for _ in range(rng.randrange(1, 12)))


class Differ:
    def __init__(self, ftprep, model):
        self.ftprep, self.model = ftprep, model
        self.sp = sentencepiece.SentencePieceProcessor(model_file=model)
        self.total = self.differences = 0

    def report(self, kind, text, want, got):
        self.differences += 1
        if self.differences <= 20:
            print(f"DIFFERENT {kind} {text[:200]!r}\n  want {str(want)[:300]}\n  got  {str(got)[:300]}")

    def check(self, texts):
        want = [self.sp.encode(t) for t in texts]
        got = run(self.ftprep, "tokenize", self.model, [json.dumps(t) for t in texts])
        assert len(got) == len(texts), (len(got), len(texts))
        for text, w, g in zip(texts, want, got):
            if w != g:
                self.report("ids", text, w, g)
        back = run(self.ftprep, "detokenize", self.model, [json.dumps(w) for w in want])
        for text, w, g in zip(texts, want, back):
            if self.sp.decode(w) != g:
                self.report("text", text, self.sp.decode(w), g)
        self.total += len(texts)

    def group(self, name, texts, batch=20000):
        before, buffer = self.total, []
        for t in texts:
            buffer.append(t)
            if len(buffer) == batch:
                self.check(buffer)
                buffer = []
        if buffer:
            self.check(buffer)
        print(f"{self.model} {name}: {self.total - before} strings, {self.differences} differences so far",
              flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--ftprep", required=True)
    p.add_argument("--random", type=int, default=100000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--code-points", action="store_true")
    p.add_argument("--text-bytes", type=int, default=5_000_000)
    p.add_argument("models", nargs="+")
    args = p.parse_args()
    total = differences = 0
    for model in args.models:
        d = Differ(args.ftprep, model)
        words = [d.sp.id_to_piece(i).replace("\u2581", " ") for i in range(d.sp.get_piece_size())]
        d.group("edges", EDGES)
        d.group("pieces", words)
        d.group("random", random_strings(random.Random(args.seed), args.random, words))
        if args.code_points:
            d.group("code points", every_code_point(), 100000)
        d.group("real text", real_text(args.text_bytes), 5000)
        total += d.total
        differences += d.differences
    print(f"{total} strings, {differences} differences")
    sys.exit(differences > 0)


main()
