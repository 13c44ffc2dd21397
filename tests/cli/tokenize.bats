#!/usr/bin/env bats
# ftprep tokenize, detokenize and count on the tiny tokenizer.

setup() {
    cd "$BATS_TEST_DIRNAME/../.."
    bin=${FT_BIN:-build/release}
    tiny=(--tokenizer data-samples/tokenizer-tiny.json)
    tmp=$(mktemp -d "${FT_TEST_TMP:-/tmp}/tokenize.XXXXXX")
}

teardown() { rm -rf "$tmp"; }

@test "the golden files come out byte for byte, in both modes for special tokens" {
    for mode in literal parse; do
        "$bin/ftprep" tokenize --json --content-specials $mode "${tiny[@]}" \
            < tests/golden/tok/tiny.$mode.in | cmp - tests/golden/tok/tiny.$mode.out
    done
}

@test "detokenize is the inverse of tokenize" {
    cp docs/architecture.md "$tmp/text"
    "$bin/ftprep" tokenize "${tiny[@]}" < "$tmp/text" > "$tmp/ids"
    "$bin/ftprep" detokenize "${tiny[@]}" < "$tmp/ids" | cmp - "$tmp/text"
    [ "$(wc -l < "$tmp/ids")" -eq "$(wc -l < "$tmp/text")" ]
}

@test "an empty line gives an empty line, and the last line needs no newline" {
    run bash -c "printf 'a\n\nb' | '$bin/ftprep' tokenize ${tiny[*]} | '$bin/ftprep' detokenize ${tiny[*]}"
    [ "$output" = $'a\n\nb' ]
    run bash -c "printf '' | '$bin/ftprep' tokenize ${tiny[*]}"
    [ "$status" -eq 0 ] && [ -z "$output" ]
}

@test "count gives one number per line and the total" {
    run bash -c "printf 'a\n\naaa\n' | '$bin/ftprep' count ${tiny[*]}"
    [ "${lines[0]}" -eq 1 ] && [ "${lines[1]}" -eq 0 ]
    [ "${lines[3]}" = "total $((lines[0] + lines[1] + lines[2]))" ]
    run bash -c "printf '\"a\\\\nb\"\n' | '$bin/ftprep' count --json ${tiny[*]}"
    [ "${lines[1]}" = '{"lines":1,"bytes":3,"tokens":3}' ]
}

@test "special tokens are text unless they are to be parsed" {
    run bash -c "printf '<|im_end|>' | '$bin/ftprep' tokenize ${tiny[*]} --content-specials parse"
    [ "$output" = 2 ]
    run bash -c "printf '<|im_end|>' | '$bin/ftprep' count ${tiny[*]}"
    [ "${lines[0]}" -gt 1 ]
    run bash -c "printf '2 68 2' | '$bin/ftprep' detokenize ${tiny[*]} --skip-specials"
    [[ "$output" != *im_end* ]]
}

@test "errors name the line" {
    run bash -c "printf 'ok\nbad \xff\n' | '$bin/ftprep' tokenize ${tiny[*]}"
    [ "$status" -eq 1 ]
    [[ "$output" == *"standard input: line 2: byte 5 is not valid UTF-8"* ]]
    run bash -c "printf '\"a\"\n7\n' | '$bin/ftprep' tokenize --json ${tiny[*]}"
    [ "$status" -eq 1 ]
    [[ "$output" == *"line 2: expected a JSON string, found a number"* ]]
    run bash -c "printf '1 x\n' | '$bin/ftprep' detokenize ${tiny[*]}"
    [[ "$output" == *"line 1: 'x' is not a token id"* ]]
    run bash -c "printf '512\n' | '$bin/ftprep' detokenize ${tiny[*]}"
    [[ "$output" == *"line 1: 512 is not a token id, they are 0 to 511"* ]]
    run bash -c "printf '{}\n' | '$bin/ftprep' detokenize --json ${tiny[*]}"
    [[ "$output" == *"line 1: expected a JSON array"* ]]
}

@test "a full disk is reported" {
    [ -e /dev/full ] || skip "no /dev/full"
    run bash -c "yes word | head -50000 | '$bin/ftprep' tokenize ${tiny[*]} > /dev/full"
    [ "$status" -eq 1 ]
    [[ "$output" == *"standard output: cannot write"* ]]
}

@test "an empty file and one that is no tokenizer are named" {
    : > "$tmp/empty.tok"
    echo text > "$tmp/text.tok"
    run "$bin/ftprep" count --tokenizer "$tmp/empty.tok" < /dev/null
    [ "$status" -eq 1 ]
    [[ "$output" == *"$tmp/empty.tok: is empty, expected a tokenizer"* ]]
    run "$bin/ftprep" count --tokenizer "$tmp/text.tok" < /dev/null
    [ "$status" -eq 1 ]
    [[ "$output" == *"$tmp/text.tok: not a serialised tokenizer"* ]]
}

@test "help fits 96 columns and indents its examples" {
    for command in tokenize detokenize count; do
        "$bin/ftprep" $command --help > "$tmp/help"
        [ -z "$(grep -E '^.{97}' "$tmp/help")" ] || { cat "$tmp/help"; false; }
        [ -z "$(sed '1,/^examples:/d' "$tmp/help" | grep -E '^[^ ]')" ] || { cat "$tmp/help"; false; }
    done
}

@test "text survives the way through a SentencePiece model and a data set made with it" {
    model=tests/golden/spm/bpe_bytes.model
    "$bin/ftprep" tokenize --tokenizer $model < README.md > "$tmp/ids"
    "$bin/ftprep" detokenize --tokenizer $model < "$tmp/ids" | cmp - README.md
    "$bin/ftprep" build --tokenizer $model --template vicuna --max-length 512 --out "$tmp/spm" \
        data-samples/chat.jsonl
    "$bin/ftprep" detokenize --tokenizer "$tmp/spm" < "$tmp/ids" | cmp - README.md
}
