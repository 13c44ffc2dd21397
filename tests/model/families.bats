#!/usr/bin/env bats
# Vocabularies of real models against what Hugging Face does with them (goldens made by
# tests/reference/make_families.py). Needs models/vocab from tests/fetch_vocab.sh.

families="deepseek2 deepseek3 llama3 qwen2 mistral1 mistral1-legacy mistral3 botchan kyoto"

setup() {
    cd "$BATS_TEST_DIRNAME/../.."
    bin=${FT_BIN:-build/release}
    golden=tests/golden/tok/families
}

sums() {
    split -l 250 --filter=sha256sum | cut -c1-64
}

@test "ids of 2,500 seeded strings equal Hugging Face's for each family, special tokens as text" {
    for f in $families; do
        python3 tests/reference/family_strings.py |
            "$bin/ftprep" tokenize --json --content-specials literal --tokenizer models/vocab/$f.json |
            sums | diff - $golden/$f.literal.sums || { echo "$f"; false; }
    done
}

@test "ids and decoded text equal Hugging Face's for each family, special tokens parsed" {
    for f in $families; do
        python3 tests/reference/family_strings.py |
            "$bin/ftprep" tokenize --json --content-specials parse --tokenizer models/vocab/$f.json \
                > "$BATS_TEST_TMPDIR/ids"
        sums < "$BATS_TEST_TMPDIR/ids" | diff - $golden/$f.parse.sums || { echo "$f"; false; }
        tr -d '[]' < "$BATS_TEST_TMPDIR/ids" | tr , ' ' |
            "$bin/ftprep" detokenize --tokenizer models/vocab/$f.json | sha256sum | cut -c1-64 |
            diff - $golden/$f.decoded.sums || { echo "$f: decoded"; false; }
    done
}

@test "each family survives the way to tokenizer.json and to a data set" {
    convert=$bin/tests/tools/tok_convert
    for f in $families; do
        want=$("$convert" --fingerprint models/vocab/$f.json)
        "$convert" --json models/vocab/$f.json > "$BATS_TEST_TMPDIR/copy.json"
        "$convert" --blob models/vocab/$f.json > "$BATS_TEST_TMPDIR/copy.tok"
        [ "$("$convert" --fingerprint "$BATS_TEST_TMPDIR/copy.json")" = "$want" ] || { echo $f; false; }
        [ "$("$convert" --fingerprint "$BATS_TEST_TMPDIR/copy.tok")" = "$want" ]
    done
}

# input and the ids that the bug reports against other programs name as right
@test "inputs known to go wrong elsewhere" {
    check() {
        got=$(printf '%s' "$2" | "$bin/ftprep" tokenize --json --content-specials parse \
            --tokenizer models/vocab/$1.json)
        [ "$got" = "$3" ] || { echo "$1 $2: $got, expected $3"; false; }
    }
    check llama3 '"C\u1eeda Vi\u1ec7t"' '[34,91163,101798]'
    check llama3 '"\u8bf7\u4f60\u57fa\u4e8e\u4ee5\u4e0b\u300c\u8bc4\u4f30\u6807\u51c6\u300d"' \
        '[15225,57668,125510,88852,13177,64479,112494,110778,10646]'
    check llama3 '" soubor"' '[127539]'
    check llama3 '" Vi\u1ec7c"' '[114195]'
    check deepseek2 '" Vi\u1ec7t"' '[23708,32555,216,83]'
}

@test "a megabyte of one character takes linear time" {
    for f in deepseek2 llama3 qwen2 mistral1 kyoto; do
        for c in a ' ' '\xcc\x81'; do
            python3 -c "
import sys
sys.stdout.buffer.write(b'$c' * (1 << 20) + b'\n')" |
                timeout 60 "$bin/ftprep" count --tokenizer models/vocab/$f.json > /dev/null
        done
    done
}
