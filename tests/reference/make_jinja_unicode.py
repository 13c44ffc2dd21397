#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes formats/jinja_unicode.c: letter case and character classes as Python's str applies them.

Nothing is assumed about Unicode versions: every code point is put through the str methods of the
interpreter that renders the reference's templates.

usage: python3 tests/reference/make_jinja_unicode.py > formats/jinja_unicode.c     (Python 3.11)
"""
import re
import sys
import unicodedata

PAGE = 128
FLAGS = ["ALPHA", "DECIMAL", "DIGIT", "NUMERIC", "LOWER", "UPPER", "TITLE", "CASED", "IGNORABLE",
         "PRINTABLE", "WORD"]


def code_points(s):
    return [ord(c) for c in s]


def flags(c):
    ch = chr(c)
    # Final sigma: small at the end of a word when the letter before it has case; letters that are
    # "case ignorable" are skipped on the way.
    final_after = ("A" + ch + "\u03a3").lower().endswith("\u03c2")
    final_alone = (ch + "\u03a3").lower().endswith("\u03c2")
    title = unicodedata.category(ch) == "Lt"
    return sum(1 << i for i, b in enumerate([
        ch.isalpha(), ch.isdecimal(), ch.isdigit(), ch.isnumeric(),
        ch.islower(), ch.isupper() and not title, title,
        (ch + "a").title().endswith("a"),
        final_after and not final_alone,
        ch.isprintable(),
        re.fullmatch(r"\w", ch) is not None]) if b)


def main():
    specials, records, pages, index = [], {}, {}, []

    def mapping(c, text):
        """A delta, or a reference into the table of longer results."""
        points = code_points(text)
        if len(points) == 1:
            return points[0] - c
        if points not in specials:
            specials.append(points)
        return 0x200000 + specials.index(points)

    for start in range(0, 0x110000, PAGE):
        page = []
        for c in range(start, start + PAGE):
            ch = chr(c)
            if 0xD800 <= c < 0xE000:
                r = (0, 0, 0, 0, 0)
            else:
                r = (mapping(c, ch.lower()), mapping(c, ch.upper()), mapping(c, ch.title()),
                     mapping(c, ch.casefold()), flags(c))
            page.append(records.setdefault(r, len(records)))
        index.append(pages.setdefault(tuple(page), len(pages)))

    out = sys.stdout.write
    out("/* SPDX-License-Identifier: Apache-2.0\n"
        " * Written by tests/reference/make_jinja_unicode.py from Python %d.%d (Unicode %s): do not\n"
        " * edit. %d records, %d pages. */\n" %
        (*sys.version_info[:2], unicodedata.unidata_version, len(records), len(pages)))
    out('#include "formats/jinja_unicode.h"\n\n/* clang-format off */\n')
    out("const struct jinja_char jinja_chars[%d] = {\n" % len(records))
    for r in records:
        out("    {%d, %d, %d, %d, %d},\n" % r)
    out("};\n\nconst uint32_t jinja_long_cases[%d][3] = {\n" % len(specials))
    for s in specials:
        out("    {%s},\n" % ", ".join("0x%X" % p for p in (s + [0, 0])[:3]))
    out("};\n\nconst uint16_t jinja_char_page[%d] = {\n" % len(index))
    assert len(pages) < 65536 and len(records) < 65536
    for i in range(0, len(index), 32):
        out("    " + ",".join(map(str, index[i:i + 32])) + ",\n")
    out("};\n\nconst uint16_t jinja_char_pages[%d][%d] = {\n" % (len(pages), PAGE))
    for page in pages:
        out("    {" + ",".join(map(str, page)) + "},\n")
    out("};\n/* clang-format on */\n")


main()
