#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes formats/tok/grapheme_table.c: the classes of characters that decide where an extended
grapheme cluster (UAX #29) ends.

The properties come from regex, which is newer than what Hugging Face tokenizers was built with.
Which characters stay with the one before them, and which are pictures, is therefore asked of
tokenizers itself, one by one.

usage: python3 tests/reference/make_grapheme.py > formats/tok/grapheme_table.c
needs: regex 2026.11.19, tokenizers 0.23.3
"""
import struct
import sys

import regex
from tokenizers import normalizers

CLASSES = [  # the first that matches
    ("CR", r"\r"), ("LF", r"\n"), ("ZWJ", "\u200d"), ("CONTROL", r"\p{GCB=Control}"),
    ("LINKER", r"[\p{GCB=Extend}&&\p{InCB=Linker}]"), ("EXTEND", r"[\p{GCB=Extend}&&\p{InCB=Extend}]"),
    ("EXTEND_ONLY", r"\p{GCB=Extend}"), ("REGIONAL", r"\p{GCB=Regional_Indicator}"),
    ("PREPEND", r"\p{GCB=Prepend}"), ("SPACING", r"\p{GCB=SpacingMark}"),
    ("L", r"\p{GCB=L}"), ("V", r"\p{GCB=V}"), ("T", r"\p{GCB=T}"),
    ("PICTURE", r"\p{ExtPict}"), ("CONSONANT", r"\p{InCB=Consonant}"),
]
JOINING = {"ZWJ", "LINKER", "EXTEND", "EXTEND_ONLY", "SPACING"}


def rule(key):
    """A normalizer of one rule, key -> b. A short cluster that begins with key becomes b as a whole."""
    units = [0] * (256 * (len(key) + 2))
    units[0] = base = 256
    units[0] <<= 10
    for i, c in enumerate(key):
        place, base = base ^ c, 256 * (i + 2)
        last = i + 1 == len(key)
        units[place] = (place ^ base) << 10 | last << 8 | c
    units[base] = 1 << 31
    return normalizers.Precompiled(struct.pack(f"<{len(units) + 1}I", 4 * len(units), *units) + b"b\0")


def code_points():
    return (c for c in range(0x110000) if not 0xD800 <= c < 0xE000)


def joining():
    n = rule(b"a")
    return {c for c in code_points() if n.normalize_str("a" + chr(c)) == "b"}


def pictures():
    """A picture makes the cluster before it too long for the rule, so that the joiner stays."""
    n = rule("\xa9".encode())
    return {c for c in code_points() if "\u200d" in n.normalize_str("\xa9\u200d" + chr(c))}


def classes():
    joins, picture = joining(), pictures()
    patterns = [(name, regex.compile(p, regex.V1)) for name, p in CLASSES]
    for c in range(0x110000):
        if 0xD800 <= c < 0xE000 or 0xAC00 <= c <= 0xD7A3:  # Hangul syllables are computed
            yield None
            continue
        name = next((name for name, p in patterns if p.fullmatch(chr(c))), None)
        if (name in JOINING and c not in joins) or (name == "PICTURE" and c not in picture):
            name = None
        elif name is None and c in picture and c not in joins:
            name = "PICTURE"
        elif name not in JOINING and c in joins:
            sys.exit(f"U+{c:04X} is {name}, but tokenizers joins it to the character before")
        yield name


def ranges():
    first, last_class = 0, None
    for c, name in enumerate(list(classes()) + [None]):
        if name != last_class:
            if last_class is not None:
                yield first, c - 1, last_class
            first, last_class = c, name


def main():
    rows = [f"{{0x{a:04X}, 0x{b:04X}, GRAPHEME_{name}}}," for a, b, name in ranges()]
    print("""/* SPDX-License-Identifier: Apache-2.0
 * Written by tests/reference/make_grapheme.py: do not edit. */
#include "formats/tok/grapheme.h"

/* clang-format off */
const struct grapheme_range grapheme_ranges[] = {""")
    for i in range(0, len(rows), 3):
        print("    " + " ".join(rows[i:i + 3]))
    print(f"""}};
const size_t n_grapheme_ranges = {len(rows)};""")


main()
