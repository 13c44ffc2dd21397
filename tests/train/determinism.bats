#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The same run gives the same bits, however it is computed.

load common

setup_file() {
    load common
    make_inputs determinism
    train first 2> /dev/null > /dev/null
}

setup() {
    use_inputs determinism
}

@test "a repeated run is identical" {
    train again
    same_run first again
}

@test "one thread and four threads are identical" {
    train threads1 run.threads=1
    train threads4 run.threads=4
    same_run first threads1
    same_run first threads4
}

@test "the fast product is identical over runs and threads too" {
    train fast1 backend.matmul=fast run.threads=1
    train fast4 backend.matmul=fast run.threads=4
    same_run fast1 fast4
}

@test "recomputing the activations changes no bit" {
    train recompute memory.recompute=true
    same_run first recompute
}

@test "another seed is another run" {
    train seed run.seed=2
    refute diff -q <(history first) <(history seed)
}

@test "the loss does not depend on how a batch is split" {
    local common=(batch.mode=sequential lora.dropout=0 train.max_steps=1 eval.every=0)
    train split41 "${common[@]}" batch.micro=4 batch.accumulate=1
    train split14 "${common[@]}" batch.micro=1 batch.accumulate=4
    # The first step's loss and gradient norm within the error of another order of summation.
    awk -F'"loss": |, "lr"|"grad_norm": |, "tokens"' '
        /"loss"/ { loss[NR] = $2; norm[NR] = $4 }
        function far(a, b, by) { return a - b > by * a || b - a > by * a }
        END { n = 0; for (i in loss) { l[n] = loss[i]; g[n++] = norm[i] }
              exit n != 2 || far(l[0], l[1], 1e-6) || far(g[0], g[1], 1e-5) }' \
        <(cat "$dir/split41/metrics.jsonl" "$dir/split14/metrics.jsonl")
}

@test "every batch mode trains and lowers the loss" {
    for mode in packed grouped sequential; do
        train "mode-$mode" "batch.mode=$mode" train.max_steps=80 lora.dropout=0
        first=$(sed -nE 's/.*"first_eval_loss": ([0-9.]+).*/\1/p' "$dir/mode-$mode/summary.json")
        last=$(sed -nE 's/.*"final_eval_loss": ([0-9.]+).*/\1/p' "$dir/mode-$mode/summary.json")
        awk "BEGIN { exit !($last < $first) }"
    done
}

@test "a run leaves what it promises" {
    for f in config.json metrics.jsonl samples.jsonl loss.svg summary.json adapter/adapter_config.json \
        adapter/adapter_model.safetensors; do
        [ -s "$dir/first/$f" ]
    done
    [ -z "$(find "$dir/first" -name '*.tmp*')" ]
    # The resolved configuration is a run file that gives the same run.
    "$bin/fttrain" train "$dir/first/config.json" "run.dir=$dir/from-config"
    same_run first from-config
}
