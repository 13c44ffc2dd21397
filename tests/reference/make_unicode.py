#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes formats/tok/unicode.c: character classes as Hugging Face tokenizers really applies them.

Nothing is assumed about Unicode versions: every code point is put through the component that will
be imitated (a Split regex, the Digits pre-tokenizer, added-token matching) and the answer is read
off the pieces. The counts go into the file and into docs/formats/tokenizer.md.

usage: python3 tests/reference/make_unicode.py > formats/tok/unicode.c     (tokenizers 0.23.3)
"""
import sys
import textwrap

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers

# Bits of enum unicode_class in formats/tok/unicode.h.
LETTER, NUMBER, SPACE, NUMERIC, WORD, PUNCTUATION, SYMBOL, MARK = (1 << i for i in range(8))
UPPER, LOWER, DS_LETTER, DS_PUNCTUATION, DS_CJK, KANA = (1 << i for i in range(8, 14))
BERT_PUNCTUATION, ONIG_WORD = 1 << 14, 1 << 15
SCRIPTS = "Han Hiragana Katakana Hangul Latin Cyrillic Greek Arabic".split()  # from bit 21
CATEGORY_SHIFT = 16
CATEGORIES = ("Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp "
              "Cc Cf Cs Co").split()
PAGE = 128
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]

# The letters of DeepSeek-V2's second stage, in hexadecimal: some change under normalization.
DS_LETTERS = """
41-5A 61-7A B5 C0-D6 D8-F6 F8-1BA 1BC-1BF 1C4-293 295-2AF 370-373 376 377 37B-37D 37F 386
388-38A 38C 38E-3A1 3A3-3F5 3F7-481 48A-52F 531-556 10A0-10C5 13A0-13F5 13F8-13FD 1C90-1CBA
1CBD-1CBF 1D00-1D2B 1D6B-1D77 1D79-1D9A 1E00-1F15 1F18-1F1D 1F20-1F45 1F48-1F4D 1F50-1F57 1F59
1F5B 1F5D 1F5F-1F7D 1F80-1FB4 1FB6-1FBC 1FBE 1FC2-1FC4 1FC6-1FCC 1FD0-1FD3 1FD6-1FDB 1FE0-1FEC
1FF2-1FF4 1FF6-1FFC 2102 2107 210A-2113 2115 2119-211D 2124 2126 2128 212A-212D 212F-2134 2139
213C-213F 2145-2149 214E 2183 2184 2C00-2C7B 2C7E-2CE4 2CEB-2CEE 2CF2 2CF3 A640-A66D A680-A69B
A722-A76F A771-A787 A78B-A78E AB70-ABBF FB00-FB06 FB13-FB17 FF21-FF3A FF41-FF5A 10400-1044F
104B0-104D3 104D8-104FB 10C80-10CB2 10CC0-10CF2 118A0-118DF 1E900-1E943
"""


def chunks(step=4096):
    for i in range(0, len(CODE_POINTS), step):
        yield CODE_POINTS[i:i + step]


def by_split(split):
    """Code points that stand alone after `split`, each one asked between two separators."""
    found = set()
    separator = next(s for s in "a\x01." if len(split.pre_tokenize_str(s + s)) == 1)
    for chunk in chunks():
        text = separator + "".join(chr(c) + separator for c in chunk)
        for piece, (start, end) in split.pre_tokenize_str(text):
            if end - start == 1 and start % 2 == 1:
                found.add(ord(text[start]))
    return found


def ranges(text):
    found = set()
    for part in text.split():
        first, _, last = part.partition("-")
        found |= set(range(int(first, 16), int(last or first, 16) + 1))
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
    flags = [0] * 0x110000
    for bit, members in classes.items():
        for c in members:
            flags[c] |= bit
    pages, index = [], []
    for i in range(0, 0x110000, PAGE):
        page = tuple(flags[i:i + PAGE])
        if page not in pages:
            pages.append(page)
        index.append(pages.index(page))
    assert len(pages) <= 65536
    return pages, index


def rows(values, per_row):
    for i in range(0, len(values), per_row):
        yield "    " + ",".join(str(v) for v in values[i:i + per_row]) + ","


def main():
    isolated = lambda pattern: pre_tokenizers.Split(Regex(pattern), "isolated")
    of = {name: by_split(isolated(rf"\p{{{name}}}")) for name in CATEGORIES if name != "Cs"}
    union = lambda names: set().union(*(of[n] for n in names.split()))
    classes = {
        LETTER: by_split(isolated(r"\p{L}")),
        NUMBER: by_split(isolated(r"\p{N}")),
        SPACE: by_split(isolated(r"\s")),
        NUMERIC: by_split(pre_tokenizers.Digits(individual_digits=True)),
        WORD: word_characters(),
        PUNCTUATION: by_split(isolated(r"\p{P}")),
        SYMBOL: by_split(isolated(r"\p{S}")),
        MARK: by_split(isolated(r"\p{M}")),
        UPPER: union("Lu Lt Lm Lo Mn Mc Me"),
        LOWER: union("Ll Lm Lo Mn Mc Me"),
        DS_LETTER: ranges(DS_LETTERS),
        DS_PUNCTUATION: ranges("21-2F 3A-7E FF01-FF0F FF1A-FF5E 2018-201F 3000-3002"),
        DS_CJK: ranges("800-9FA5 AC00-D7FF"),
        KANA: ranges("4E00-9FA5 3040-30FF"),
    }
    classes[BERT_PUNCTUATION] = by_split(pre_tokenizers.Punctuation("isolated"))
    classes[ONIG_WORD] = by_split(isolated(r"\w"))
    for i, name in enumerate(SCRIPTS):
        classes[1 << (21 + i)] = by_split(isolated(rf"\p{{{name}}}"))
    for i, name in enumerate(CATEGORIES):
        if name != "Cs":
            classes[i << CATEGORY_SHIFT] = of[name]
    assert classes[LETTER] == union("Lu Ll Lt Lm Lo") and classes[MARK] == union("Mn Mc Me")
    assert classes[NUMBER] == union("Nd Nl No") and classes[SYMBOL] == union("Sm Sc Sk So")
    assert classes[PUNCTUATION] == union("Pc Pd Ps Pe Pi Pf Po")
    assert sum(len(s) for s in of.values()) == len(CODE_POINTS)
    spaces = classes[SPACE]
    assert stripped_spaces("lstrip") == spaces and stripped_spaces("rstrip") == spaces
    assert classes[NUMBER] <= classes[NUMERIC] and not classes[LETTER] & classes[NUMERIC]
    counts = {name: len(classes[bit]) for name, bit in
              [("letters", LETTER), ("numbers", NUMBER), ("spaces", SPACE),
               ("numeric", NUMERIC), ("word", WORD), ("punctuation", PUNCTUATION),
               ("symbols", SYMBOL), ("marks", MARK)]}
    pages, index = table(classes)
    print("/* SPDX-License-Identifier: Apache-2.0")
    print(" * Written by tests/reference/make_unicode.py from the answers of tokenizers "
          f"{tokenizers.__version__}: do not edit.")
    summary = ", ".join(f"{n} {name}" for name, n in counts.items()) + ". */"
    print("\n".join(" * " + line for line in textwrap.wrap(summary, 97)))
    print('#include "formats/tok/unicode.h"\n')
    print("/* clang-format off */")
    print(f"const uint16_t unicode_page_index[{len(index)}] = {{")
    print("\n".join(rows(index, 32)))
    print("};\n")
    print(f"const uint32_t unicode_pages[{len(pages)}][UNICODE_PAGE] = {{")
    for page in pages:
        print("    {\n" + "\n".join(rows(list(page), 32)) + "\n    },")
    print("};")
    print(f"pages {len(pages)}, {counts}", file=sys.stderr)


main()
