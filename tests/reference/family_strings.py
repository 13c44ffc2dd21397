#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints seeded test strings for any vocabulary, one JSON string a line.

The generator is written out, so that every Python gives the same strings.

usage: python3 tests/reference/family_strings.py [N]
"""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from tok_strings import ALPHABETS, EDGES  # noqa: E402

WORDS = """the of and training data model attention is all you need def return import class self print
for in range if else None True False int main void const char struct https www com Hello World don't we've
I'LL it's Caf\u00e9 na\u00efve stra\u00dfe \u00fcber \u4e2d\u6587 \u5b57\u7b26 \u3053\u3093\u306b\u3061\u306f \u043f\u0440\u0438\u0432\u0435\u0442
\u0645\u0631\u062d\u0628\u0627 \u0939\u093f\u0928\u094d\u0926\u0940 \ud55c\uad6d\uc5b4 \u0e44\u0e17\u0e22 Vi\u1ec7t 2024 3.14159 1,000,000 0xFF
eBay NaOH pH mL ilÖveyou ἐνθάδ᾽ ἵξομαι metasys rfid501.go""".split()
SPECIALS = ["<s>", "</s>", "<unk>", "[INST]", "[/INST]", "[TOOL_CALLS]", "<|eot_id|>", "<|begin_of_text|>",
            "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<\uff5cbegin\u2581of\u2581sentence\uff5c>",
            "<\uff5cend\u2581of\u2581sentence\uff5c>", "<\uff5cUser\uff5c>", "<0x41>", "\u2581", "\u00f8", "\u00c0"]
SPACES = [" ", "\n", "\t", "  ", "\r\n", "\u00a0", "'", "\u3000", "   ", "\u2028", "\n\n"]


class Random:
    """xorshift64*"""

    def __init__(self, seed):
        self.state = seed * 2654435761 % (1 << 64) or 1

    def below(self, n):
        x = self.state
        x ^= x >> 12
        x = (x ^ x << 25) % (1 << 64)
        x ^= x >> 27
        self.state = x
        return (x * 2685821657736338717 % (1 << 64) >> 32) * n >> 32

    def choice(self, items):
        return items[self.below(len(items))]


def code_point(rng, limit):
    c = rng.below(limit)
    return chr(c) if not 0xD800 <= c < 0xE000 else "\ufffd"


def piece(rng):
    kind = rng.below(12)
    if kind < 4:
        return " " * rng.below(2) + rng.choice(WORDS)
    if kind == 4:
        return rng.choice(SPECIALS)
    if kind == 5:
        special = rng.choice(SPECIALS)
        return special[:rng.below(len(special) + 1)]
    if kind == 6:
        return code_point(rng, 0x110000) * (1 + rng.below(3))
    if kind == 7:
        return "".join(code_point(rng, 0x3000) for _ in range(1 + rng.below(8)))
    if kind == 8:
        return rng.choice(SPACES) * (1 + rng.below(4))
    if kind == 9:
        return "".join(code_point(rng, 0x500) for _ in range(1 + rng.below(5)))
    alphabet = rng.choice(ALPHABETS)
    return "".join(rng.choice(alphabet) for _ in range(1 + rng.below(20)))


def strings(n):
    rng = Random(20261201)
    for i in range(n):
        yield EDGES[i] if i < len(EDGES) else "".join(piece(rng) for _ in range(1 + rng.below(12)))


if __name__ == "__main__":
    for s in strings(int(sys.argv[1]) if len(sys.argv) > 1 else 2500):
        print(json.dumps(s))
