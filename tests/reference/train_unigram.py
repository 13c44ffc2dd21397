#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a unigram model with the rules nmt_nfkc, as T5 has one, for comparisons of speed.

usage: python3 tests/reference/train_unigram.py OUT.model TEXT... [--vocab 20000] [--lines 100000]
needs: sentencepiece 0.2.3
"""
import argparse
import random

import sentencepiece


def main():
    p = argparse.ArgumentParser()
    p.add_argument("out")
    p.add_argument("text", nargs="+")
    p.add_argument("--vocab", type=int, default=20000)
    p.add_argument("--lines", type=int, default=100000)
    args = p.parse_args()
    lines = []
    for name in args.text:
        with open(name, encoding="utf-8", errors="ignore") as f:
            lines += [line.strip() for line in f if 10 < len(line) < 2000]
    random.Random(1).shuffle(lines)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines[:args.lines]), model_prefix=args.out.removesuffix(".model"),
        model_type="unigram", vocab_size=args.vocab, normalization_rule_name="nmt_nfkc",
        hard_vocab_limit=False, num_threads=2, minloglevel=2)


main()
