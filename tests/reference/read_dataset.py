#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a data set from docs/formats/{manifest,shard,packs}.md alone and prints what `ftprep inspect
--json` prints, so that the two can be compared byte for byte:

    python3 tests/reference/read_dataset.py DIR | cmp - <(ftprep inspect DIR --json)

Standard library, and zstandard (package) or zstd (command). With xxhash every checksum is checked too.
Also checks spans, counts and that the pack plan holds every sample once."""
import json
import os
import struct
import subprocess
import sys

try:
    import zstandard
except ImportError:
    zstandard = None
try:
    import xxhash
except ImportError:
    xxhash = None


def need(condition, *what):
    if not condition:
        sys.exit("read_dataset: " + " ".join(map(str, what)))


def check64(data, expected, what):
    need(xxhash is None or xxhash.xxh3_64_intdigest(data) == expected, what, "checksum")


def check128(data, expected, what):
    need(xxhash is None or xxhash.xxh3_128_hexdigest(data) == expected, what, "checksum")


def decompress(frames):
    """All frames of a shard at once: zstd frames may follow each other in one stream."""
    if zstandard is not None:
        return [zstandard.ZstdDecompressor().decompress(f) for f in frames]
    out = subprocess.run(["zstd", "-dc"], input=b"".join(frames), stdout=subprocess.PIPE, check=True).stdout
    return out


def read_file(directory, entry):
    data = open(os.path.join(directory, entry["file"]), "rb").read()
    need(len(data) == entry["bytes"], entry["file"], "size")
    check128(data, entry["hash"], entry["file"])
    return data


def blocks_of(data, table_at, n_blocks, name):
    entries = [struct.unpack_from("<QQII", data, table_at + 24 * b) for b in range(n_blocks)]
    raw = decompress([data[at:at + stored] for at, _, stored, _ in entries])
    if isinstance(raw, bytes):
        at, cut = 0, []
        for _, _, _, size in entries:
            cut.append(raw[at:at + size])
            at += size
        raw = cut
    for block, (_, checksum, _, size) in zip(raw, entries):
        need(len(block) == size, name, "block size")
        check64(block, checksum, name + " block")
    return raw


def read_record(raw, offset, width, entry, vocab):
    row, source, n, trained, n_spans = struct.unpack_from("<QIIII", raw, offset)
    need((row, source, n, trained) == entry, "record and index differ")
    spans = [struct.unpack_from("<II", raw, offset + 24 + 8 * s) for s in range(n_spans)]
    ids = list(struct.unpack_from("<%d%s" % (n, "H" if width == 2 else "I"), raw, offset + 24 + 8 * n_spans))
    labels, end = [-100] * n, -1
    for start, length in spans:
        need(length >= 1 and start > end and start + length <= n, "span")
        labels[start:start + length] = ids[start:start + length]
        end = start + length
    need(sum(x != -100 for x in labels) == trained and labels[0] == -100, "trained tokens")
    need(max(ids) < vocab, "vocabulary")
    return ids, labels


def read_shard(data, name, vocab):
    need(data[:8] == b"FTSHARD\0", name, "magic")
    version, width, n, tokens, trained, index, table, size, index_sum, table_sum, n_blocks = struct.unpack_from(
        "<IIQQQQQQQQI", data, 8)
    need(version == 1 and size == len(data), name, "header")
    need(table == index + 40 * n and size == table + 24 * n_blocks, name, "extents")
    check64(data[:120], struct.unpack_from("<Q", data, 120)[0], name + " header")
    check64(data[index:table], index_sum, name + " index")
    check64(data[table:], table_sum, name + " block table")
    blocks = blocks_of(data, table, n_blocks, name)
    for i in range(n):
        row, block, offset, n_tokens, n_trained, source = struct.unpack_from("<QIIIII", data, index + 40 * i)
        ids, labels = read_record(blocks[block], offset, width, (row, source, n_tokens, n_trained), vocab)
        tokens -= n_tokens
        trained -= n_trained
        yield source, row, ids, labels
    need(tokens == 0 and trained == 0, name, "totals")


def check_packs(data, lengths, entry):
    version, length, n_bins, n = struct.unpack_from("<IIII", data, 8)
    need(data[:8] == b"FTPACKS\0" and version == 1 and n == len(lengths), "packs header")
    need(len(data) == 64 + 4 * (n_bins + 1 + n) and (n_bins, length) == (entry["bins"], entry["length"]), "packs size")
    fullest = struct.unpack_from("<I", data, 40)[0]
    starts = struct.unpack_from("<%dI" % (n_bins + 1), data, 64)
    numbers = struct.unpack_from("<%dI" % n, data, 64 + 4 * (n_bins + 1))
    need(starts[0] == 0 and starts[-1] == n and sorted(numbers) == list(range(n)), "packs cover")
    fills = [sum(lengths[i] for i in numbers[a:b]) for a, b in zip(starts, starts[1:])]
    need(all(a < b for a, b in zip(starts, starts[1:])), "empty pack")
    need(max(fills, default=0) == fullest <= length, "fullest pack")


def main(directory):
    text = open(os.path.join(directory, "manifest.json"), encoding="utf-8").read()
    m = json.loads(text)
    need(m["format"] == "fttrain-dataset" and m["version"] == 1, "manifest version")
    check128(text[:text.rindex('"checksum"')].encode(), m["checksum"], "manifest")
    for name, split in m["splits"].items():
        lengths = []
        for entry in split["shards"]:
            for source, row, ids, labels in read_shard(read_file(directory, entry), entry["file"], m["vocab"]):
                lengths.append(len(ids))
                print(json.dumps({"file": m["sources"][source]["path"], "row": row, "split": name, "input_ids": ids,
                                  "labels": labels, "images": []}, ensure_ascii=False))
        need(len(lengths) == split["samples"] and sum(lengths) == split["tokens"], name, "totals")
        if split["packs"] is not None:
            check_packs(read_file(directory, split["packs"]), lengths, split["packs"])


main(sys.argv[1])
