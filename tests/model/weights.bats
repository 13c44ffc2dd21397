#!/usr/bin/env bats
# The weights of the real model: quantised to known bytes, and the loss they give. Needs FT_SMOLLM2.

setup() {
    cd "$BATS_TEST_DIRNAME/../.."
    bin=${FT_BIN:-build/release}
    model=${FT_SMOLLM2:-models/SmolLM2-135M-Instruct.Q4_1.gguf}
    tmp=${FT_TEST_TMP:-build/test-tmp}/weights
    mkdir -p "$tmp"
}

# The file with this fingerprint was compared with bitsandbytes, layer by layer, by
# tests/reference/make_nf4.py --check.
@test "every tensor is quantised to the bytes that were compared with bitsandbytes" {
    for threads in 1 3; do
        rm -f "$tmp/base.nf4"
        "$bin/ftprep" quantize "$model" --out "$tmp/base.nf4" --threads $threads
        run "$bin/ftprep" verify "$tmp/base.nf4"
        [ "$status" -eq 0 ]
        [[ "$output" == *"fingerprint cb2a6446defc857838e3fa2abddb1fdf" ]]
    done
}

@test "the loss is that of transformers on the same weights within 1e-5" {
    rows=tests/golden/smollm2/rows.jsonl
    rm -rf "$tmp/data" "$tmp/run" "$tmp/base.nf4"
    "$bin/ftprep" quantize "$model" --out "$tmp/base.nf4"
    # Evaluation before the first step sees the base alone: the adapter's B is still zero.
    "$bin/ftprep" build --tokenizer "$model" --template smollm2 --max-length 512 --out "$tmp/data" \
        --eval $rows data-samples/chat.jsonl
    echo '{"run": {"dir": "run"}, "base": {"path": "base.nf4"}, "data": {"path": "data"}}' > "$tmp/run.json"
    "$bin/fttrain" train "$tmp/run.json" train.max_steps=1 batch.accumulate=1
    ours=$(sed -nE 's/.*"step": 0,.*"eval_loss": ([0-9.]+).*/\1/p' "$tmp/run/metrics.jsonl")
    theirs=$(cut -d' ' -f1 tests/golden/smollm2/loss.txt)
    echo "ours $ours, transformers $theirs"
    awk -v a="$ours" -v b="$theirs" 'BEGIN { d = (a - b) / b; exit !(a > 0 && d < 1e-5 && d > -1e-5) }'
}
