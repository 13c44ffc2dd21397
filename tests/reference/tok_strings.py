# SPDX-License-Identifier: Apache-2.0
"""Strings for tokenizer tests: edge cases, every code point, seeded random mixtures, real text."""
import glob
import gzip

EDGES = [
    "", " ", "  ", "\n", "\n\n", "\t", "\r\n", " \n ", "a", " a", "a ", "  a", "a  b", "a \n b",
    "\x1f-a", "\u00bc-a", "a \u3007b", "\u2165-a", "\uFEFF//", "C\u1eeda Vi\u1ec7t", "<s>a",
    "<unk><|endoftext|><s>", "a\na", "\"`", " \u2e4e", "\n\x0b  ", "a\xa0\xa0\x00b", "a </s> b",
    "\xa0aC", "\u2029 \uA3E4", "\u00e5", "\U000ac517", "today\n ", " \x850", "'rer", "'s", "'S",
    "I'm you're we've he'd she'll it's don't", "''s", " 's", "\n's", "'\u017f", "'s's's", "x'", "'",
    "'r", "'re", "'l", "'ll", "1's", "'s1", "12345", "1 2  3", " 1", "  1", "\n1", "1\n", "a1b2",
    "\u00b2\u2460\u0665\u4e09", "  \u0665", "\u3000\u3000a", "a\u3000 b", "\u00a0 1", "\u2028\u2029",
    "\U0001f600\U0001f468\u200d\U0001f469", "e\u0301", "\u1e9e\u0130", "\x00", "\x00\x00a",
    "def f(x):\n    return x  # 1\n\n\n\tpass", "<|im_start|>user\nhi<|im_end|>\n", "<|im_end|",
    "<|im_start|><|im_start|>", "<<|im_end|>>", "<|im_end|>1", " <|im_end|> ", "<file_sep>\n  x",
    "Hello", " Hello", "  Hello", "   Hello", "This is \U0001f999.cpp", "\u8bf7\u4f60\u57fa\u4e8e",
    "0" * 50, "^" * 300, "a" * 300, "'s" * 100, " " * 300, "\n" * 300, "ab" * 500, "\u00e9" * 100,
    "\u4e2d" * 70, "a" * 15, "a" * 16, "a" * 31, "a" * 32, "a" * 33, "a" * 63, "a" * 64, "a" * 65,
    "\U0001f600" * 16, "x" * 5000, "xy" * 3000, " \u00a0" * 40, "-" * 1000, "the " * 100,
]
ALPHABETS = [
    "ab ", "aA1 '", "ab\n ", "'smdtrevl ", " \t\n\r\u00a0\u3000\u2009x", "01 \u00b2\u0665\u2167a",
    "abcdefghijklmnopqrstuvwxyz", "<|im_startend>\n x", "\u4e00\u4e8c\u3042\u30a2 a1",
    "\u00e9\u00e0\u0301\u0300e ", "\U0001f600\U0001f3fb\u200d\ufe0f ", "{}[]()<>;:=+-*/\\\"'`~!@#$%^&",
    "\x00\x01\x1c\x1d\x1e\x1f\x7f\x80\x85 a", "\u0915\u094d\u0937\u093f \u0c15", "\u05d0\u05b0\u0627\u064e ",
]


def every_code_point():
    for c in range(0x110000):
        if not 0xD800 <= c < 0xE000:
            ch = chr(c)
            yield ch
            yield f"a{ch}b {ch} 1{ch}1{ch}{ch}  {ch}\n{ch}'s{ch}"


def random_strings(rng, n, words, specials):
    code_points = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    low = [c for c in code_points if c < 0x3000]

    def piece():
        kind = rng.randrange(10)
        if kind < 3:
            return rng.choice(words)
        if kind == 3:
            return rng.choice(specials)
        if kind == 4:
            s = rng.choice(specials)
            return s[:rng.randrange(len(s) + 1)]
        if kind == 5:
            return chr(rng.choice(code_points)) * rng.randrange(1, 4)
        if kind == 6:
            return "".join(chr(rng.choice(low)) for _ in range(rng.randrange(1, 8)))
        if kind == 7:
            return rng.choice([" ", "\n", "\t", "  ", "\r\n", "\u00a0", "'", "\u3000"]) * rng.randrange(1, 5)
        alphabet = rng.choice(ALPHABETS)
        return "".join(rng.choice(alphabet) for _ in range(rng.randrange(1, 20)))

    for _ in range(n):
        yield "".join(piece() for _ in range(rng.randrange(1, 12)))


def real_text(limit):
    patterns = ["/usr/share/doc/**/*", "/usr/share/man/**/*", "/usr/lib/python3*/**/*.py",
                "/usr/share/perl/**/*.p[lm]", "/usr/include/**/*.h"]
    for pattern in patterns:
        total = 0
        for name in sorted(glob.glob(pattern, recursive=True)):
            try:
                with (gzip.open if name.endswith(".gz") else open)(name, "rb") as f:
                    text = f.read(2_000_000).decode("utf-8")
            except (OSError, UnicodeDecodeError, EOFError):
                continue
            for i in range(0, len(text), 4000):
                yield text[i:i + 4000]
            total += len(text)
            if total > limit // len(patterns):
                break
