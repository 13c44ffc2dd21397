#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where each known pre-tokenizer cuts, against Hugging Face tokenizers.

Every code point alone, doubled, between letters, digits, spaces and line ends, then random strings
from alphabets that meet the borders of the patterns. Prints the number of strings per pattern and
stops at the first difference.

usage: diff_pretok.py build/release/tests/tools/cut_text [--random N] [--seed S] [--stages] [NAME...]
"""
import argparse
import json
import random
import re
import struct
import subprocess
import sys
import tempfile

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

C = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
P, U, L = r"[^\r\n\p{L}\p{N}]?", r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
LLAMA3 = C + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + TAIL


def patterns_of_deepseek():
    """Read from the header the scanners are recognised by: the letters are a long list."""
    text = open("formats/tok/pretok_patterns.h", encoding="ascii").read()
    found = {}
    for name, body in re.findall(r"#define PATTERN_(DEEPSEEK3?_[A-Z]+)((?: *\\\n +\"[^\n]*\")+)", text):
        literal = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', body))
        found[name] = json.loads('"' + re.sub(r"\\U([0-9A-F]{8})", lambda m: json.dumps(
            chr(int(m[1], 16)))[1:-1], literal) + '"')
    return found


DS = patterns_of_deepseek()
split = lambda p: pre_tokenizers.Split(Regex(p), "isolated")
bytes_only = lambda: pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
digits = lambda: pre_tokenizers.Digits(individual_digits=True)
KNOWN = {
    "gpt2": [pre_tokenizers.ByteLevel(add_prefix_space=False)],
    "smollm2": [digits(), pre_tokenizers.ByteLevel(add_prefix_space=False)],
    "llama3": [split(LLAMA3)],
    "qwen2": [split(LLAMA3.replace("{1,3}", ""))],
    "cl100k": [split(r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}"
                     r"\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s")],
    "o200k": [split(f"{P}{U}*{L}+{C}?|{P}{U}+{L}*{C}?" + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + TAIL)],
    "tekken": [split(f"{P}{U}*{L}+|{P}{U}+{L}*" + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + TAIL)],
    "deepseek": [split(DS["DEEPSEEK_" + n]) for n in "LINES LETTERS PUNCTUATION END CJK".split()]
                + [digits()],
    "deepseek3": [split(DS["DEEPSEEK3_" + n]) for n in "NUMBERS KANA WORDS".split()],
    # Without a scanner: every kind and behaviour, removal aside (only ends are compared).
    "falcon": [pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.Digits(individual_digits=False),
               split(r"[0-9][0-9][0-9]")],
    "kimi": [split(r"[\p{Han}]+|" + P + r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}"
                   r"\p{Lo}\p{M}&&[^\p{Han}]]+" + C + r"?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + TAIL)],
    "previous": [pre_tokenizers.Split(Regex(r"\w+"), "merged_with_previous"),
                 pre_tokenizers.Split(" ", "merged_with_previous")],
    "next": [pre_tokenizers.Split(Regex(r"[\s\d]"), "merged_with_next", invert=True),
             pre_tokenizers.Split("a", "merged_with_next")],
    "contiguous": [pre_tokenizers.Split(Regex(r"\P{Lu}|\W"), "contiguous", invert=True)],
    "empty": [split(r"x*|(?=\p{Lu})"), pre_tokenizers.Punctuation("merged_with_previous")],
}

SPECIMENS = ("aZsS'’\"-_/.,!?()=<>\\ \t\n\r\x0b\x1c\x00\x7f09½²Ⅷ٣éÉßſKıİǅʰªºøÿа́́ा्ำ中国語ひカー々〇\u3040\u3099゛゠・ヿ"
             "가ᄀ〈《。　、！？ＡｚＺ０：“”‘’…—€£+~^`|§©™°\u00a0\u1680\u2003\u2028\u2029\u202f\u205f\u3000\u180e\u200b\u200d\u00ad\ufeff"
             "🙂👩‍🦰🇩🇪\ue000\u0378\U00010400\U0001e900\U00020000\U0001d7ceĀ฿١፩ხẼệﬀﬅＩΣςΆ῾ℵⅈↄⰀꙀꜢꭰ")


def code_point_texts():
    for c in range(0x110000):
        if 0xD800 <= c < 0xE000:
            continue
        x = chr(c)
        yield f"{x}{x}a{x}a {x}b 1{x}1{x} {x} \n{x}\n {x}{x}\t{x}A{x}Z中{x}中.{x}. {x}!'{x}'s{x}"
        yield x
        yield x + x


def random_texts(n, rng):
    words = ["don't", "I'LL", "we'ſ", "'s", "'RE", "hello", "World", "中文", "  ", "\n\n", "\r\n", " \n ", "12345",
             "x1y2", "...", "://", "CamelCase", "ÀÉ", "été", "\u00a0", "\u3000", "foo_bar", "ABCdef", "日本語"]
    for _ in range(n):
        kind = rng.randrange(4)
        k = rng.choice((3, 8, 20, 60, 64, 65, 70, 130, 200))
        if kind == 0:
            yield "".join(rng.choices(SPECIMENS, k=k))
        elif kind == 1:
            few = rng.choices(SPECIMENS, k=3)
            yield "".join(rng.choices(few, k=k))
        elif kind == 2:
            yield "".join(rng.choices(words, k=k // 3 + 1))
        else:
            yield "".join(c if (c := chr(rng.randrange(0x110000))) < "\ud800" or c > "\udfff" else "?"
                          for _ in range(k // 4 + 1)) + "".join(rng.choices(SPECIMENS, k=k))


def expected(pre, text):
    cuts = []
    sizes = None
    if len(text) != len(text.encode()):
        sizes = [0]
        for c in text:
            sizes.append(sizes[-1] + len(c.encode()))
    for _, (_, end) in pre.pre_tokenize_str(text):
        cuts.append(sizes[end] if sizes else end)
    return cuts


def compare(tool, name, texts, options):
    stages = KNOWN[name]
    pre = pre_tokenizers.Sequence(stages + ([] if name in ("gpt2", "smollm2") else [bytes_only()]))
    alphabet = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    t = Tokenizer(models.BPE(vocab=alphabet, merges=[]))
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel()
    n = 0
    with tempfile.NamedTemporaryFile(suffix=".json") as f:
        t.save(f.name)
        batch = []
        def flush():
            data = b"".join(struct.pack("<I", len(b)) + b for b in (x.encode() for x in batch))
            out = subprocess.run([tool, f.name, *options], input=data, stdout=subprocess.PIPE, check=True).stdout
            at = 0
            for text in batch:
                k, = struct.unpack_from("<I", out, at)
                got = list(struct.unpack_from(f"<{k}I", out, at + 4))
                at += 4 + 4 * k
                want = expected(pre, text)
                if got != want:
                    raw = text.encode()
                    show = lambda cuts: [raw[a:b].decode(errors="replace") for a, b in zip([0] + cuts, cuts)]
                    sys.exit(f"{name}: {ascii(text)}\n  got      {ascii(show(got))}\n  expected {ascii(show(want))}")
            batch.clear()
        for text in texts:
            batch.append(text)
            n += 1
            if len(batch) == 20000:
                flush()
        flush()
    return n


def main():
    p = argparse.ArgumentParser()
    p.add_argument("tool")
    p.add_argument("names", nargs="*")
    p.add_argument("--random", type=int, default=100000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--skip-code-points", action="store_true")
    p.add_argument("--stages", action="store_true", help="the engine for unknown patterns")
    a = p.parse_intermixed_args()
    options = ["--stages"] if a.stages else []
    for name in a.names or KNOWN:
        rng = random.Random(f"{a.seed} {name}")
        n = compare(a.tool, name, random_texts(a.random, rng), options)
        if not a.skip_code_points:
            n += compare(a.tool, name, code_point_texts(), options)
        print(f"{name}: {n} texts, no difference", flush=True)


main()
