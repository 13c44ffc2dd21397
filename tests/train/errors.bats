#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What can go wrong with a run is said in one line that names the place, before or instead of harm.

load common

setup_file() {
    load common
    make_inputs errors
}

setup() {
    use_inputs errors
}

@test "an unknown key names the nearest valid one, with exit code 2" {
    run train x optimizer.lrr=1
    [ "$status" -eq 2 ]
    [[ "$output" == *"unknown key 'optimizer.lrr'; did you mean 'optimizer.lr'?"* ]]
    sed 's/"rank"/"rnak"/' "$dir/run.json" > "$dir/bad.json"
    run "$bin/fttrain" train "$dir/bad.json"
    [ "$status" -eq 2 ]
    [[ "$output" == *"bad.json: unknown key 'lora.rnak'; did you mean 'lora.rank'?"* ]]
}

@test "a wrong type and broken JSON name file and place" {
    sed 's/"rank": 4/"rank": "4"/' "$dir/run.json" > "$dir/bad.json"
    run "$bin/fttrain" train "$dir/bad.json"
    [ "$status" -eq 2 ]
    [[ "$output" == *"bad.json: lora.rank: expected a whole number, found a string"* ]]
    sed 's/"rank": 4,/"rank": 4/' "$dir/run.json" > "$dir/bad.json"
    run "$bin/fttrain" train "$dir/bad.json"
    [ "$status" -eq 2 ]
    [[ "$output" == *"bad.json: line 3, column"* ]]
}

@test "an option without effect is refused" {
    run train x schedule.kind=constant schedule.min_lr_ratio=0.1
    [ "$status" -eq 2 ]
    [[ "$output" == *"schedule.min_lr_ratio has no effect because schedule.kind is constant"* ]]
    "$bin/ftprep" build --tokenizer data-samples/tokenizer-tiny.json --template smollm2 \
        --max-length 256 --out "$dir/no-eval" "$dir/rows.jsonl" > /dev/null 2>&1
    run train x "data.path=$dir/no-eval"
    [ "$status" -eq 2 ]
    [[ "$output" == *"eval.every has no effect because the data set has no eval split"* ]]
}

@test "missing inputs and inputs of another kind are named" {
    run train x base.path=no/such.nf4
    [ "$status" -eq 1 ]
    [[ "$output" == *"no/such.nf4"* ]]
    run train x "base.path=$dir/rows.jsonl"
    [ "$status" -eq 1 ]
    [[ "$output" == *"rows.jsonl"* ]]
    run train x "data.path=$dir/model"
    [ "$status" -eq 1 ]
    [[ "$output" == *"manifest.json"* ]]
    [ ! -e "$dir/x" ]
}

@test "a base that lacks a part is refused before anything is written" {
    head -c $(($(stat -c %s "$dir/base.nf4") - 5000)) "$dir/base.nf4" > "$dir/cut.nf4"
    run train x "base.path=$dir/cut.nf4"
    [ "$status" -eq 1 ]
    [[ "$output" == *"cut.nf4"* ]]
    [ ! -e "$dir/x" ]
}

@test "the vocabulary of another model is refused, naming both" {
    cp -r "$dir/model" "$dir/model2"
    # Another spelling of one added token: the same number of ids, another vocabulary.
    sed -i 's/<|im_start|>/<|xx_start|>/g' "$dir/model2/tokenizer.json"
    "$bin/ftprep" quantize "$dir/model2" --out "$dir/base2.nf4" > /dev/null 2>&1
    run train x "base.path=$dir/base2.nf4"
    [ "$status" -eq 1 ]
    [[ "$output" == *"$dir/data was tokenised with the vocabulary of another model"*"base2.nf4"* ]]
    [ ! -e "$dir/x" ]
}

@test "a run directory that cannot be made is named" {
    run "$bin/fttrain" train "$dir/run.json" "run.dir=$dir/rows.jsonl/run"
    [ "$status" -eq 1 ]
    [[ "$output" == *"rows.jsonl"* ]]
}

@test "a loss that is not finite stops the run and spares the checkpoints" {
    run train nan optimizer.lr=1e30 optimizer.clip=0 schedule.warmup_ratio=0
    [ "$status" -eq 1 ]
    [[ "$output" == *"step "*": loss "*"lower optimizer.lr"*"rows.jsonl:"* ]]
    [ ! -e "$dir/nan/summary.json" ]
    for c in "$dir"/nan/checkpoints/step_*; do
        refute grep -qiE 'nan|inf' "$c/state.json"
    done
    refute grep -qE 'nan|inf' "$dir/nan/metrics.jsonl"
}

@test "too little memory is refused before anything is allocated, with what would help" {
    run train x memory.limit=1
    [ "$status" -eq 1 ]
    [[ "$output" == *"the run needs"*"memory.limit is 1.0 MiB"* ]]
    [[ "$output" == *"memory.recompute=true needs"* ]]
    [[ "$output" == *"batch.micro=1 needs"* ]]
    [ ! -e "$dir/x" ]
}

@test "a dry run reports and writes nothing" {
    run train x --dry-run
    [ "$status" -eq 0 ]
    [[ "$output" == *"run: 16 steps ("*" per epoch) of 2 x 2 samples, 2 threads"* && "$output" == *"optimiser state"* && "$output" == *"total"* ]]
    run train x --dry-run train.max_steps=1 run.threads=1 batch.micro=1 batch.accumulate=1
    [[ "$output" == *"run: 1 step ("*" per epoch) of 1 x 1 sample, 1 thread"* ]]
    [ ! -e "$dir/x" ]
}

@test "a dry run refuses what the start would refuse" {
    run train x --dry-run backend.name=cuda
    [ "$status" -eq 2 ]
    [[ "$output" == *"unknown backend 'cuda'; this build has: cpu"* ]]
    run "$bin/fttrain" train --dry-run "$dir/run.json" "run.dir=$dir/rows.jsonl"
    [ "$status" -eq 1 ]
    [[ "$output" == *"rows.jsonl: Not a directory"* ]]
    run "$bin/fttrain" train --dry-run "$dir/run.json" run.dir=/proc/x
    [ "$status" -eq 1 ]
    [[ "$output" == *"run.dir: cannot make a directory in /proc"* ]]
    cp -r "$dir/data" "$dir/unpacked"
    printf 'x' | dd of="$dir/unpacked/train.packs" bs=1 seek=20 conv=notrunc 2> /dev/null
    run train x --dry-run "data.path=$dir/unpacked"
    [ "$status" -eq 1 ]
    [[ "$output" == *"train.packs: "* ]]
    train done train.max_steps=2 > /dev/null 2>&1
    run train done train.max_steps=2 --dry-run
    [ "$status" -eq 1 ]
    [[ "$output" == *"is a finished run"* ]]
    rm "$dir/done/summary.json"
    run train done train.max_steps=2 --dry-run lora.rank=8
    [ "$status" -eq 1 ]
    [[ "$output" == *"lora.rank is 8 now"* ]]
    run train done train.max_steps=2 --dry-run
    [ "$status" -eq 0 ]
    [[ "$output" == *"it would go on after step 2"* ]]
    [ ! -e "$dir/x" ] && [ ! -e "$dir/done/summary.json" ]
}

@test "run.resume that is neither a word nor a directory lists what it may be" {
    run train x run.resume=alwyas
    [ "$status" -eq 2 ]
    [[ "$output" == *"there is no directory alwyas; expected auto, never, or the path"* ]]
}

@test "a full disk ends the run with one error and leaves the checkpoints whole" {
    # The file size limit stands in for the disk: metrics.jsonl hits it after a few steps.
    run bash -c "trap '' XFSZ; ulimit -f 24; exec '$bin/fttrain' train '$dir/run.json' \
        'run.dir=$dir/full' train.max_steps=150 checkpoint.every=20 lora.rank=1 lora.targets=q_proj"
    [ "$status" -eq 1 ]
    [[ "$output" == *"File too large"* ]]
    [ ! -e "$dir/full/summary.json" ]
    # With room again the same command goes on.
    run train full train.max_steps=150 checkpoint.every=20 lora.rank=1 lora.targets=q_proj
    [ "$status" -eq 0 ]
    [[ "$output" == *"going on after step"* ]]
}

@test "a damaged data set stops the run at the step that meets it" {
    cp -r "$dir/data" "$dir/hurt"
    shard=$(ls "$dir"/hurt/train-*.shard | head -1)
    printf 'XXXXXXXX' | dd of="$shard" bs=1 seek=300 conv=notrunc 2> /dev/null
    run train hurt "data.path=$dir/hurt"
    [ "$status" -eq 1 ]
    [[ "$output" == *"train-00000.shard"* ]]
}
