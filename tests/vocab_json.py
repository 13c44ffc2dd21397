#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tokenizer.json files of test vocabularies from the files that tests/fetch_vocab.sh fetched.

The result is what the converters of transformers 5.24 make of the same files (TikTokenConverter,
LlamaConverter with and without legacy, Unigram as T5Converter has it); needs Python alone.

usage: python3 tests/vocab_json.py DIRECTORY
"""
import base64
import json
import os
import struct
import sys

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
MARK = "\u2581"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4


# --- byte-level vocabularies from tiktoken's rank files ---------------------------------------------


def byte_alphabet():
    keep = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [b for b in range(256) if b not in keep]
    table = {b: chr(b) for b in keep}
    table.update({b: chr(0x100 + i) for i, b in enumerate(rest)})
    return table


def read_ranks(path):
    with open(path, "rb") as f:
        pairs = (line.split() for line in f if line.strip())
        return {base64.b64decode(token): int(rank) for token, rank in pairs}


def merges_of_ranks(ranks):
    merges = []
    for token, rank in ranks.items():
        splits = ((token[:i], token[i:]) for i in range(1, len(token)))
        merges += [(rank, ranks[l], ranks[r], l, r) for l, r in splits if l in ranks and r in ranks]
    return [(l, r) for *_, l, r in sorted(merges)]


def byte_level_bpe(path, pattern, normalizer, specials, ignore_merges):
    ranks = read_ranks(path)
    letters = byte_alphabet()
    spell = {token: "".join(letters[b] for b in token) for token in ranks}
    return tokenizer(
        normalizer,
        {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]},
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        bpe({spell[t]: rank for t, rank in ranks.items()},
            [[spell[l], spell[r]] for l, r in merges_of_ranks(ranks)], ignore_merges=ignore_merges),
        [added(len(ranks) + i, content) for i, content in enumerate(specials)])


# --- SentencePiece models ----------------------------------------------------------------------------


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def fields(data):
    """(number, value) of each field of a protocol buffer message; numbers or bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            size = 4
            if key & 7 == 2:
                size, at = varint(data, at)
            elif key & 7 == 1:
                size = 8
            value = data[at:at + size]
            at += size
        yield key >> 3, value


def read_model(path):
    """Pieces (text, score, type) and the compiled normalization rules."""
    pieces, rules = [], b""
    with open(path, "rb") as f:
        for number, value in fields(f.read()):
            if number == 1:
                piece = dict(fields(value))
                pieces.append((piece[1].decode(), struct.unpack("<f", piece.get(2, bytes(4)))[0],
                               piece.get(3, NORMAL)))
            elif number == 3:
                rules = dict(fields(value)).get(2, b"")
    return pieces, rules


def merges_of_scores(pieces):
    """In the order of SentencePieceExtractor: by score of the result, then by ids of the parts."""
    ids = {text: i for i, (text, _, _) in enumerate(pieces)}
    merges = []
    for text, score, _ in pieces:
        local = [(text[:i], text[i:], score) for i in range(1, len(text))
                 if text[:i] in ids and text[i:] in ids]
        merges += sorted(local, key=lambda m: (ids[m[0]], ids[m[1]]))
    return [[l, r] for l, r, _ in sorted(merges, key=lambda m: m[2], reverse=True)]


LLAMA_DECODER = {"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": MARK}, "content": " "},
    {"type": "ByteFallback"}, {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}


def llama2(path, legacy):
    pieces, _ = read_model(path)
    normalizer = pre_tokenizer = None
    if legacy:
        normalizer = {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": MARK},
            {"type": "Replace", "pattern": {"String": " "}, "content": MARK}]}
    else:
        pre_tokenizer = {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "first",
                         "split": False}
    scored = [(text, 0.0 if i < 3 else score, kind) for i, (text, score, kind) in enumerate(pieces)]
    return tokenizer(
        normalizer, pre_tokenizer, LLAMA_DECODER,
        bpe({text: i for i, (text, _, _) in enumerate(pieces)}, merges_of_scores(scored),
            unk_token="<unk>", fuse_unk=True, byte_fallback=True),
        [added(i, text, special=kind != USER_DEFINED) for i, (text, _, kind) in enumerate(pieces)
         if kind in (UNKNOWN, CONTROL, USER_DEFINED)])


def unigram(path):
    pieces, rules = read_model(path)
    normalizer = {"type": "Sequence", "normalizers": [
        {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(rules).decode()},
        {"type": "Strip", "strip_left": False, "strip_right": True},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": MARK}]}
    unknown = [i for i, (_, _, kind) in enumerate(pieces) if kind == UNKNOWN][0]
    metaspace = {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "always", "split": True}
    return tokenizer(
        normalizer, metaspace, metaspace,
        {"type": "Unigram", "unk_id": unknown, "byte_fallback": False,
         "vocab": [[text, score] for text, score, _ in pieces]},
        [added(i, text) for i, (text, _, kind) in enumerate(pieces) if kind in (UNKNOWN, CONTROL)])


# --- tokenizer.json ----------------------------------------------------------------------------------


def bpe(vocab, merges, unk_token=None, fuse_unk=False, byte_fallback=False, ignore_merges=False):
    return {"type": "BPE", "dropout": None, "unk_token": unk_token, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": fuse_unk, "byte_fallback": byte_fallback,
            "ignore_merges": ignore_merges, "vocab": vocab, "merges": merges}


def added(number, content, special=True):
    return {"id": number, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": special}


def tokenizer(normalizer, pre_tokenizer, decoder, model, added_tokens):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added_tokens,
            "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": None,
            "decoder": decoder, "model": model}


LLAMA3_SPECIALS = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
                   "<|eot_id|>"]
QWEN2_SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def main():
    directory = sys.argv[1]

    def source(name):
        return os.path.join(directory, name)

    made = {
        "llama3": lambda: byte_level_bpe(source("llama3.tiktoken"), LLAMA3, None, LLAMA3_SPECIALS, True),
        "qwen2": lambda: byte_level_bpe(source("qwen.tiktoken"), QWEN2, {"type": "NFC"}, QWEN2_SPECIALS,
                                        False),
        "mistral1-legacy": lambda: llama2(source("mistral1.model"), True),
        "mistral1": lambda: llama2(source("mistral1.model"), False),
        "mistral3": lambda: llama2(source("mistral3.model"), False),
        "botchan": lambda: unigram(source("botchan.model")),
        "kyoto": lambda: unigram(source("kyoto.model")),
    }
    for name, make in made.items():
        with open(source(name + ".json"), "w") as f:
            json.dump(make(), f, ensure_ascii=False)


main()
