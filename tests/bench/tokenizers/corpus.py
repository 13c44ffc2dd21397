#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes en.txt, code.txt and zh.txt, the texts of the tokenizer benchmark, into a directory.

English: the documentation of Debian's linux-doc; code: the Python sources under --code; Chinese:
the lines with Chinese in manpages-zh and debian-reference-zh-cn. The files are taken in a shuffled,
fixed order. What is too small for 200 MB stays so: the benchmark then repeats it with its documents
in another order.

usage: python3 tests/bench/tokenizers/corpus.py OUT --root ROOT --code DIRECTORY
--root holds the unpacked packages: apt-get download linux-doc-6.1 manpages-zh debian-reference-zh-cn,
then dpkg-deb -x each into ROOT.
"""
import argparse
import gzip
import html
import os
import random
import re

LIMIT = 210_000_000


def files_under(root, keep):
    found = [os.path.join(d, name) for d, _, names in os.walk(root) for name in names]
    found = sorted(p for p in found if keep(p) and os.path.isfile(p) and not os.path.islink(p))
    random.Random(1).shuffle(found)
    return found


def read(path):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as f:
        return f.read().decode("utf-8", "ignore").replace("\0", "")


def write(path, texts):
    n = 0
    with open(path, "wb") as f:
        for text in texts:
            n += f.write(text.encode())
            if n > LIMIT:
                break
    print(f"{path}: {n} bytes")


def without_tags(text):
    return html.unescape(re.sub(r"<[^>]*>", "", text))


def chinese_lines(text):
    return "".join(line + "\n" for line in text.split("\n") if re.search("[\u4e00-\u9fff]", line))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("out")
    p.add_argument("--root", required=True)
    p.add_argument("--code", required=True)
    a = p.parse_args()
    share = os.path.join(a.root, "usr/share")
    os.makedirs(a.out, exist_ok=True)
    english = files_under(f"{share}/doc/linux-doc-6.1/Documentation",
                          lambda p: "translations" not in p and p.endswith(("rst.gz", "txt.gz")))
    english += files_under(f"{share}/doc/linux-doc-6.1/html",
                           lambda p: "translations" not in p and p.endswith(".html"))
    write(f"{a.out}/en.txt", (without_tags(read(p)) if p.endswith("html") else read(p)
                              for p in english))
    write(f"{a.out}/code.txt", map(read, files_under(a.code, lambda p: p.endswith(".py"))))
    chinese = files_under(f"{share}/man/zh_CN", lambda p: p.endswith(".gz"))
    chinese += files_under(f"{share}/debian-reference", lambda p: p.endswith("html"))
    write(f"{a.out}/zh.txt", (chinese_lines(without_tags(read(p)) if p.endswith("html") else read(p))
                              for p in chinese))


main()
