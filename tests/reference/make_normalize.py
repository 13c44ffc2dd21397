#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes formats/tok/normalize_table.c: Unicode's normal forms, lower case and combining marks as
Hugging Face tokenizers has them.

Its normalizers follow different Unicode versions (the forms 9.0, lower case that of its compiler), so
every table is read off the package: single characters through each normalizer, combining classes from
the order in which marks come out, compositions from the pairs that decompositions name.

usage, from the repository root: python3 tests/reference/make_normalize.py
needs: tokenizers 0.23.3
"""
import unicodedata

import tokenizers
from tokenizers import normalizers as n

PAGE = 128
HANGUL = range(0xAC00, 0xAC00 + 11172)
NFC, NFD, NFKC, NFKD = (f().normalize_str for f in (n.NFC, n.NFD, n.NFKC, n.NFKD))
LOWER, STRIP = n.Lowercase().normalize_str, n.StripAccents().normalize_str
POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def combining_classes():
    """The value is that of any later Unicode; whether this one knows it shows in the order."""
    classes = {}
    for c in POINTS:
        value = unicodedata.combining(chr(c))
        if value > 1 and NFD("a" + chr(c) + "\u0334")[1] == "\u0334":
            classes[c] = value  # U+0334 has class 1 and goes first
        elif value == 1 and NFD("a\u0301" + chr(c))[1] == chr(c):
            classes[c] = value
    return classes


def decompositions():
    canonical, compatible = {}, {}
    for c in POINTS:
        if c in HANGUL:
            continue
        d, k = NFD(chr(c)), NFKD(chr(c))
        if d != chr(c):
            canonical[c] = d
        if k != d:
            compatible[c] = k
    return canonical, compatible


def compositions(canonical):
    pairs = {}
    for c, full in canonical.items():
        parts = NFC(full)
        if parts != chr(c):
            continue
        # The pair is what is left when the last character is taken off again.
        first, last = NFC(full[:-1]), full[-1]
        assert len(first) == 1 and NFC(first + last) == chr(c), hex(c)
        pairs[ord(first), ord(last)] = c
    return pairs


def main():
    classes = combining_classes()
    canonical, compatible = decompositions()
    pairs = compositions(canonical)
    lower = {c: LOWER(chr(c)) for c in POINTS if LOWER(chr(c)) != chr(c)}
    marks = {c for c in POINTS if STRIP(chr(c)) == ""}
    seconds = {b for _, b in pairs} | set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))

    flags = bytearray(0x110000)
    for c in POINTS:
        moves = c in classes
        flags[c] |= 1 * (moves or c in seconds or NFC(chr(c)) != chr(c))
        flags[c] |= 2 * (moves or NFD(chr(c)) != chr(c))
        flags[c] |= 4 * (moves or c in seconds or NFKC(chr(c)) != chr(c))
        flags[c] |= 8 * (moves or NFKD(chr(c)) != chr(c))
        flags[c] |= 16 * (c in lower) | 32 * (c in marks)

    pages, index = [], []
    for at in range(0, 0x110000, PAGE):
        page = bytes(flags[at:at + PAGE])
        if page not in pages:
            pages.append(page)
        index.append(pages.index(page))
    assert len(pages) <= 256

    text = []

    def place(s):
        points = [ord(x) for x in s]
        for at in range(len(text) - len(points) + 1):
            if text[at:at + len(points)] == points:
                return at, len(points)
        text.extend(points)
        return len(text) - len(points), len(points)

    def mapping(table):
        return [f"{{{c}, {at}, {size}}}" for c, s in sorted(table.items()) for at, size in [place(s)]]

    # Long strings first: shorter ones are often found inside.
    for table in (compatible, canonical, lower):
        for s in sorted(table.values(), key=len, reverse=True):
            place(s)
    rows = {
        "canonical": mapping(canonical),
        "compatible": mapping(compatible),
        "lower": mapping(lower),
    }
    ranges = []
    for c, value in sorted(classes.items()):
        if ranges and ranges[-1][1] == c - 1 and ranges[-1][2] == value:
            ranges[-1][1] = c
        else:
            ranges.append([c, c, value])

    def write(f, declaration, items, width=100):
        f.write(f"const {declaration} = {{\n")
        line = "   "
        for item in items:
            if len(line) + len(item) + 2 > width:
                f.write(line + "\n")
                line = "   "
            line += " " + item + ","
        f.write(line + "\n};\n\n")

    with open("formats/tok/normalize_table.c", "w") as f:
        f.write(f"""/* SPDX-License-Identifier: Apache-2.0
 * Written by tests/reference/make_normalize.py from the answers of tokenizers {tokenizers.__version__}: do not
 * edit. {len(classes)} combining characters, {len(canonical)} canonical and {len(compatible)} other decompositions, {len(pairs)}
 * compositions, {len(lower)} upper-case characters, {len(marks)} marks. */
#include "formats/tok/normalize_table.h"

/* clang-format off */
""")
        write(f, f"uint8_t normalize_page_index[{len(index)}]", map(str, index))
        write(f, f"uint8_t normalize_pages[{len(pages)}][NORMALIZE_PAGE]",
              ["{" + ",".join(map(str, p)) + "}" for p in pages])
        write(f, f"uint32_t normalize_points[{len(text)}]", map(str, text))
        for name, items in rows.items():
            write(f, f"struct normalize_mapping normalize_{name}[{len(items)}]", items)
            f.write(f"const size_t normalize_n_{name} = {len(items)};\n\n")
        write(f, f"struct normalize_class normalize_classes[{len(ranges)}]",
              [f"{{{a}, {b}, {v}}}" for a, b, v in ranges])
        f.write(f"const size_t normalize_n_classes = {len(ranges)};\n\n")
        write(f, f"struct normalize_pair normalize_pairs[{len(pairs)}]",
              [f"{{{a}, {b}, {c}}}" for (a, b), c in sorted(pairs.items())])
        f.write(f"const size_t normalize_n_pairs = {len(pairs)};\n")


main()
