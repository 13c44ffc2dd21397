#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes formats/tok/unicode.c: character classes as Hugging Face tokenizers really applies them.

Nothing is assumed about Unicode versions: every code point is put through the component that will
be imitated (a Split regex, the Digits pre-tokenizer, added-token matching) and the answer is read
off the pieces. The counts go into the file and into docs/formats/tokenizer.md.

usage: python3 tests/reference/make_unicode.py > formats/tok/unicode.c     (tokenizers 0.23.3)
"""
import sys

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers

LETTER, NUMBER, SPACE, NUMERIC, WORD = 1, 2, 4, 8, 16
PAGE = 128
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def chunks(step=4096):
    for i in range(0, len(CODE_POINTS), step):
        yield CODE_POINTS[i:i + step]


def by_split(split):
    """Code points that stand alone after `split`, each one asked between two separators."""
    found = set()
    for chunk in chunks():
        for c in chunk:
            text = "\x01" + chr(c) + "\x01"
            pieces = [p for p, _ in split.pre_tokenize_str(text)]
            if c == 1:
                continue  # the separator itself: control character, in none of the classes
            if pieces == ["\x01", chr(c), "\x01"]:
                found.add(c)
    return found


def added_token_tokenizer(**flags):
    t = Tokenizer(models.WordLevel({"[x]": 0}, unk_token="[x]"))
    t.add_tokens([AddedToken("<t>", normalized=False, **flags)])
    return t


def word_characters():
    """c blocks the match of a single_word token that follows it."""
    t = added_token_tokenizer(single_word=True)
    return {c for c in CODE_POINTS if "<t>" not in t.encode(chr(c) + "<t>").tokens}


def stripped_spaces(side):
    """c is swallowed by an lstrip (rstrip) token behind (before) it."""
    t = added_token_tokenizer(**{side: True})
    text = (lambda c: "a" + c + "<t>") if side == "lstrip" else (lambda c: "<t>" + c + "a")
    found = set()
    for c in CODE_POINTS:
        e = t.encode(text(chr(c)))
        at = e.ids.index(1)
        if e.offsets[at][1] - e.offsets[at][0] == 4:
            found.add(c)
    return found


def table(classes):
    flags = bytearray(0x110000)
    for bit, members in classes.items():
        for c in members:
            flags[c] |= bit
    pages, index = [], []
    for i in range(0, 0x110000, PAGE):
        page = bytes(flags[i:i + PAGE])
        if page not in pages:
            pages.append(page)
        index.append(pages.index(page))
    assert len(pages) <= 256
    return pages, index


def rows(values, per_row):
    for i in range(0, len(values), per_row):
        yield "    " + ",".join(str(v) for v in values[i:i + per_row]) + ","


def main():
    isolated = lambda pattern: pre_tokenizers.Split(Regex(pattern), "isolated")
    classes = {
        LETTER: by_split(isolated(r"\p{L}")),
        NUMBER: by_split(isolated(r"\p{N}")),
        SPACE: by_split(isolated(r"\s")),
        NUMERIC: by_split(pre_tokenizers.Digits(individual_digits=True)),
        WORD: word_characters(),
    }
    spaces = classes[SPACE]
    assert stripped_spaces("lstrip") == spaces and stripped_spaces("rstrip") == spaces
    assert classes[NUMBER] <= classes[NUMERIC] and not classes[LETTER] & classes[NUMERIC]
    counts = {name: len(classes[bit]) for name, bit in
              [("letters", LETTER), ("numbers", NUMBER), ("spaces", SPACE),
               ("numeric", NUMERIC), ("word", WORD)]}
    pages, index = table(classes)
    print("/* SPDX-License-Identifier: Apache-2.0")
    print(" * Written by tests/reference/make_unicode.py from the answers of tokenizers "
          f"{tokenizers.__version__}: do not edit.")
    print(" * " + ", ".join(f"{n} {name}" for name, n in counts.items()) + ". */")
    print('#include "formats/tok/unicode.h"\n')
    print("/* clang-format off */")
    print(f"const uint8_t unicode_page_index[{len(index)}] = {{")
    print("\n".join(rows(index, 32)))
    print("};\n")
    print(f"const uint8_t unicode_pages[{len(pages)}][UNICODE_PAGE] = {{")
    for page in pages:
        print("    {\n" + "\n".join(rows(list(page), 32)) + "\n    },")
    print("};")
    print(f"pages {len(pages)}, {counts}", file=sys.stderr)


main()
