#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes data-samples/tokenizer-tiny.json and the token goldens.

tests/golden/tok/NAME.MODE.in holds one JSON string per line, NAME.MODE.out the ids that Hugging Face
tokenizers gives it, as `ftprep tokenize --json --content-specials MODE` writes them.

usage, from the repository root (tokenizers 0.23.3):
  python3 tests/reference/make_tok.py tiny
  python3 tests/reference/make_tok.py smollm2 tokenizer.json
where tokenizer.json is SmolLM2's. One converted from its GGUF file by transformers 5.24 lacks the
Digits stage that the file names ("smollm"): this script refuses it.
"""
import json
import random
import sys

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from tok_strings import EDGES, random_strings

TINY = "data-samples/tokenizer-tiny.json"
VOCAB = 512
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
EXTRA = [
    AddedToken("<left>", special=True, normalized=False, lstrip=True),
    AddedToken("<right>", special=True, normalized=False, rstrip=True),
    AddedToken("<both>", special=True, normalized=False, lstrip=True, rstrip=True),
    AddedToken("<word>", special=True, normalized=False, single_word=True),
    AddedToken("<plain>", special=False, normalized=False),
    AddedToken("<plain>>", special=False, normalized=False),
    AddedToken("<late>", special=False, normalized=True),
]
# Bytes without a token, as real vocabularies have them: those that UTF-8 never uses, and some that
# it does.
MISSING = [0x00, 0x01, 0x1F, 0x7F, 0x97, 0xC0, 0xC1, 0xDB, 0xDE, *range(0xF1, 0x100)]


def byte_alphabet():
    """The characters that stand for the bytes 0 to 255."""
    keep = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(b) if b in keep else chr(next(others)) for b in range(256)]


def sample_text():
    with open("data-samples/chat.jsonl", encoding="utf-8") as f:
        for line in f:
            for message in json.loads(line)["messages"]:
                yield message["content"]


def train_tiny():
    alphabet = byte_alphabet()
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB - len(EXTRA), special_tokens=SPECIALS, show_progress=False,
        initial_alphabet=[c for b, c in enumerate(alphabet) if b not in MISSING])
    t.train_from_iterator(sample_text(), trainer)
    t.add_tokens(EXTRA)
    vocab = t.get_vocab()
    assert len(vocab) == VOCAB and not any(alphabet[b] in vocab for b in MISSING)
    t.save(TINY)
    return t


def strings(t, n, seed):
    rng = random.Random(seed)
    words = [t.decode([i], skip_special_tokens=False) for i in sorted(t.get_vocab().values())]
    words = [w for w in words if w and len(w) < 20]
    specials = [a.content for _, a in sorted(t.get_added_tokens_decoder().items())]
    edges = [e for e in EDGES if len(e) <= 600]
    return edges + [s[:80] for s in random_strings(rng, n, words, specials)]


def write_golden(t, name, mode, texts):
    t.encode_special_tokens = mode == "literal"
    base = f"tests/golden/tok/{name}.{mode}"
    with open(base + ".in", "w") as source, open(base + ".out", "w") as out:
        for text in texts:
            source.write(json.dumps(text, ensure_ascii=False) + "\n")
            ids = t.encode(text, add_special_tokens=False).ids
            out.write(json.dumps(ids, separators=(",", ":")) + "\n")


# Every flag of added tokens, and contents that overlap, contain each other or are white space.
ADDED = [
    ("<s>", {"rstrip": True, "special": True}), ("  ", {}), ("<l>", {"lstrip": True, "special": True}),
    ("<lr>", {"lstrip": True, "rstrip": True}), ("<w>", {"single_word": True}), ("<b>", {}),
    ("<b>b", {}), ("b<", {"special": True}), ("<n>", {"normalized": True}),
    ("an", {"normalized": True, "single_word": True}),
]
ADDED_PARTS = ["a", "b", " ", "  ", "\n", "n", "_", "<", ">", "ab", "\u0085", "\u00a0", "\u3000", "an",
               *(content for content, _ in ADDED)]
FLAGS = ["single_word", "lstrip", "rstrip", "normalized", "special"]


def make_added():
    vocab = {c: i for i, c in enumerate([*byte_alphabet(), "ab"])}
    tokens = [{"id": len(vocab) + i, "content": content, **{f: flags.get(f, False) for f in FLAGS}}
              for i, (content, flags) in enumerate(ADDED)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}
    path = "tests/golden/tok/added.json"
    with open(path, "w") as f:
        json.dump({"version": "1.0", "truncation": None, "padding": None, "normalizer": None,
                   "pre_tokenizer": byte_level, "decoder": byte_level, "post_processor": None,
                   "added_tokens": tokens,
                   "model": {"type": "BPE", "dropout": None, "unk_token": None, "fuse_unk": False,
                             "byte_fallback": False, "vocab": vocab, "merges": ["a b"]}}, f)
    t = Tokenizer.from_file(path)
    rng = random.Random(3)
    texts = ["".join(rng.choices(ADDED_PARTS, k=rng.randrange(1, 9))) for _ in range(600)]
    for mode in ("literal", "parse"):
        write_golden(t, "added", mode, texts)
    with open("tests/golden/tok/added.offsets", "w") as f:  # in bytes, of the second mode
        for text in texts:
            starts = [len(text[:o[0]].encode()) for o in t.encode(text).offsets]
            # Hugging Face counts characters: tokens inside one are all at its start.
            f.write(json.dumps(starts, separators=(",", ":")) + "\n")


def main():
    if sys.argv[1:] == ["tiny"]:
        make_added()
        t, name, n = train_tiny(), "tiny", 900
    elif len(sys.argv) == 3 and sys.argv[1] == "smollm2":
        t, name, n = Tokenizer.from_file(sys.argv[2]), "smollm2", 1300
        assert t.get_vocab_size() == 49152 and "Digits" in str(t.pre_tokenizer), "not SmolLM2's file"
    else:
        sys.exit(__doc__)
    write_golden(t, name, "literal", strings(t, n, 1))
    write_golden(t, name, "parse", strings(t, n // 2, 2))


main()
