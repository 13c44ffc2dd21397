#!/usr/bin/env bats
# The tokenizer of the real model: exact ids, text, masks and fingerprint. Needs FT_SMOLLM2.

setup() {
    cd "$BATS_TEST_DIRNAME/../.."
    bin=${FT_BIN:-build/release}
    model=${FT_SMOLLM2:-models/SmolLM2-135M-Instruct.Q4_1.gguf}
}

@test "ids equal Hugging Face's on golden strings" {
    for mode in literal parse; do
        "$bin/ftprep" tokenize --json --content-specials $mode --tokenizer "$model" \
            < tests/golden/tok/smollm2.$mode.in | cmp - tests/golden/tok/smollm2.$mode.out
    done
}

@test "conversations render, encode and mask as transformers does; the fingerprint is tokenizer.json's" {
    run "$bin/tests/tools/golden_chat" "$model" tests/golden/chat/smollm2.jsonl
    [ "$status" -eq 0 ] || { echo "$output"; false; }
    [ "${lines[0]}" = "fingerprint ad60d50b5c5307683f0443694a7eed93" ]
    [[ "${lines[1]}" == *": 61 conversations" ]]
}

@test "text survives the way to ids and back" {
    "$bin/ftprep" tokenize --tokenizer "$model" < README.md |
        "$bin/ftprep" detokenize --tokenizer "$model" | cmp - README.md
}
