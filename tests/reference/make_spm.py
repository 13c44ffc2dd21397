#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the small SentencePiece models of tests/golden/spm and writes what SentencePiece makes of
20,000 seeded strings: for each model the hashes of all ids, offsets and decoded texts.

The strings are made again by tests/unit/test_tok_spm.c; both follow the same few lines below. The
models with the rules nmt_nfkc and nmt_nfkc_cf, whose rules alone have 240 kB, are compressed.

usage: python3 tests/reference/make_spm.py [--keep-models]
needs: sentencepiece 0.2.3, zstandard
--keep-models makes only the expected results anew.
"""
import os
import sys
import tempfile

import sentencepiece
import zstandard

OUT = "tests/golden/spm"
MASK = (1 << 64) - 1
N_STRINGS = 2000  # of each model

# In test_tok_spm.c as well.
FRAGMENTS = [
    "the", "of", "license", "copyright", "work", "under", "you", "a", "b", "ab", "abc", "bc", "x", "e",
    " ", "  ", "    ", "\n", "\t", "\u2581", "\u2581\u2581", "\u3000", "\u00a0", ".", ",", "...", "-", "--",
    "(", ")", "1", "12", "2024", "\u00e9", "e\u0301", "\u0301", "\u00df", "\u0130", "\uff21\uff22", "\uff76\uff9e", "\ufb01",
    "\u2460", "\u337f", "\ufdfa", "\u4e2d\u6587", "\u8bb8\u53ef", "\u65e5\u672c\u8a9e", "\u30d7\u30ed", "\u304b\u3099", "\u1100\u1161\u11a8",
    "\uac01", "\u0915\u094d\u0937", "\u0e33", "\u0627\u064e", "\u05d0\u05b0", "\U0001f999", "\U0001f468\u200d\U0001f469", "\U0001f1e9\U0001f1ea",
    "\x00", "\x01", "\x7f", "\u0085", "\u200b", "\ufeff", "\ufffd", "<s>", "</s>", "<unk>", "<0x41>", "<ctl>",
    "<INTEGER>", "foo bar", "ooo", "\u2122", "\u212b", "\u00bd", "\u00aa\u0300", "\u01c6",
]
RANGES = [(0x20, 0x7E), (0xA0, 0x24F), (0x300, 0x36F), (0x400, 0x4FF), (0x900, 0x97F), (0x1E00, 0x1FFF),
          (0x2000, 0x22FF), (0x3000, 0x33FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xF900, 0xFFFD),
          (0x1D400, 0x1D7FF), (0x1F300, 0x1FAFF), (0x0, 0xD7FF)]


class Random:  # splitmix64
    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
        return (z ^ z >> 31) % n


def string(seed):
    r, parts = Random(seed), []
    for _ in range(1 + r.below(16)):
        if r.below(8) == 0:
            low, high = RANGES[r.below(len(RANGES))]
            parts.append(chr(low + r.below(high - low + 1)) * (1 + r.below(3)))
        else:
            parts.append(FRAGMENTS[r.below(len(FRAGMENTS))] * (1 + (r.below(32) == 0) * r.below(40)))
    return "".join(parts)


def fnv(h, data):
    for byte in data:
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return h


def results(model):
    sp = sentencepiece.SentencePieceProcessor(model_proto=model)
    hashes = [0xCBF29CE484222325] * 3
    for i in range(N_STRINGS):
        p = sp.encode(string(i), return_type="proto")
        ids = [x.id for x in p.pieces]
        assert ids == sp.encode(string(i))
        hashes[0] = fnv(hashes[0], b"".join(x.to_bytes(4, "little") for x in [len(ids)] + ids))
        hashes[1] = fnv(hashes[1], b"".join(x.begin.to_bytes(4, "little") for x in p.pieces))
        hashes[2] = fnv(hashes[2], sp.decode(ids).encode())
    return hashes


def text():
    lines = [line.strip() for line in open("LICENSE", encoding="utf-8") if line.strip()]
    known = set("".join(FRAGMENTS)) - {"\n", "\0"}
    return lines + ["".join(c for c in string(1 << 32 | i) if c in known) for i in range(1500)]


def rules():
    """A few of each kind: to one, to many, to nothing, of several characters, to a space."""
    some = {"A": "a", "\uff21": "a", "\uff22": "b", "\ufb01": "fi", "\u2122": "tm", "\u200b": "", "\u3000": " ",
            "\u00a0": " ", "\t": " ", "\n": " ", "e\u0301": "\u00e9", "\u304b\u3099": "\u304c", "\u00df": "ss", "\u2460": "1", "ooo": "o o",
            "\ufdfa": "a b  c", "a\u0301\u0301": "\u00e1", "a\u0301": "\u00e1", "\x01": ""}
    for a, b in some.items():
        yield " ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b)


USER = ["<INTEGER>", "foo bar", "\u2581\u2581", "ab", "abc", "bcd", "  ", "\u4e2d"]
MODELS = {
    "unigram": dict(vocab_size=400),
    "unigram_nfkc_cf": dict(vocab_size=400, normalization_rule_name="nmt_nfkc_cf", byte_fallback=True,
                            character_coverage=0.98),
    "unigram_nfkc": dict(vocab_size=800, normalization_rule_name="nmt_nfkc", pad_id=0, eos_id=1, unk_id=2,
                         bos_id=-1, user_defined_symbols=["<extra_id_0>"]),
    "unigram_user": dict(vocab_size=500, user_defined_symbols=USER, control_symbols=["<ctl>"]),
    "unigram_suffix": dict(vocab_size=400, treat_whitespace_as_suffix=True),
    "unigram_free": dict(vocab_size=500, add_dummy_prefix=False, remove_extra_whitespaces=False,
                         split_by_whitespace=False, normalization_rule_name="identity"),
    "bpe": dict(model_type="bpe", vocab_size=500),
    "bpe_bytes": dict(model_type="bpe", vocab_size=700, byte_fallback=True, normalization_rule_name="identity",
                      remove_extra_whitespaces=False, split_digits=True, allow_whitespace_only_pieces=True,
                      character_coverage=0.98),
    "bpe_user": dict(model_type="bpe", vocab_size=500, user_defined_symbols=USER, control_symbols=["<ctl>"]),
    "bpe_free": dict(model_type="bpe", vocab_size=600, split_by_whitespace=False, treat_whitespace_as_suffix=True,
                     unk_surface="???"),
}


def train(name, options):
    with tempfile.TemporaryDirectory() as d:
        if "normalization_rule_name" not in options:
            with open(d + "/rules.tsv", "w", encoding="utf-8") as f:
                f.write("\n".join(rules()) + "\n")
            options = dict(options, normalization_rule_tsv=d + "/rules.tsv")
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(text()), model_prefix=d + "/m", minloglevel=2, num_threads=1,
            hard_vocab_limit=False, **options)
        return open(d + "/m.model", "rb").read()


def path_of(name):
    return f"{OUT}/{name}.model" + (".zst" if "_nfkc" in name else "")


def main():
    os.makedirs(OUT, exist_ok=True)
    with open(OUT + "/expected.txt", "w") as out:
        for name, options in MODELS.items():
            packed = path_of(name).endswith(".zst")
            if "--keep-models" in sys.argv:
                model = open(path_of(name), "rb").read()
                model = zstandard.decompress(model) if packed else model
            else:
                model = train(name, options)
                with open(path_of(name), "wb") as f:
                    f.write(zstandard.compress(model, 19) if packed else model)
            out.write(name + "".join(f" {h:016x}" for h in results(model)) + "\n")


main()
