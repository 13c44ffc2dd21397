#!/usr/bin/env bats
# lora.init: a run that starts from an adapter.

setup_file() {
    cd "$BATS_TEST_DIRNAME/../.."
    export bin=${FT_BIN:-build/release}
    export tmp=${FT_TEST_TMP:-build/test-tmp}/init
    rm -rf "$tmp" && mkdir -p "$tmp"
    "$bin"/tests/tools/make_tiny "$tmp/model" "$tmp/adapter"
    "$bin"/ftprep quantize "$tmp/model" --out "$tmp/base.nf4"
    head -n 12 data-samples/chat.jsonl > "$tmp/rows.jsonl"
    "$bin"/ftprep build --tokenizer "$tmp/model" --template smollm2 --max-length 2048 --eval-fraction 0 \
        --out "$tmp/data" "$tmp/rows.jsonl"
    cat > "$tmp/run.json" <<JSON
{"run": {"threads": 1}, "base": {"path": "base.nf4"}, "data": {"path": "data"},
 "lora": {"rank": 4, "alpha": 8}, "batch": {"mode": "sequential", "accumulate": 2},
 "optimizer": {"lr": 0.01}, "schedule": {"kind": "constant", "warmup_steps": 0}, "train": {"max_steps": 3}}
JSON
}

setup() {
    cd "$BATS_TEST_DIRNAME/../.."
    rm -rf "$tmp/run"*/
}

train() {
    run "$bin"/fttrain train "$tmp/run.json" "run.dir=$tmp/$1" "${@:2}"
}

loss() { # RUN STEP
    sed -n "s/^{\"step\": $2, .*\"loss\": \([-0-9.e]*\),.*/\1/p" "$tmp/$1/metrics.jsonl"
}

@test "a run starts from the values of the adapter" {
    train run-new
    [ "$status" -eq 0 ]
    train run-init "lora.init=$tmp/adapter"
    [ "$status" -eq 0 ]
    [ "$(loss run-new 1)" != "$(loss run-init 1)" ]
    # The run's adapter is found from the run directory.
    "$bin"/ftprep export --format peft --adapter "$tmp/run-init" --out "$tmp/run-copy"
    cmp "$tmp/run-init/adapter/adapter_model.safetensors" "$tmp/run-copy/adapter_model.safetensors"
}

@test "starting from the adapter of a finished run continues its loss" {
    train run-a optimizer.lr=1e-9
    [ "$status" -eq 0 ]
    train run-b optimizer.lr=1e-9 "lora.init=$tmp/run-a/adapter"
    [ "$status" -eq 0 ]
    # B is still almost zero: the first losses agree to the printed digits that a step of 1e-9 leaves.
    awk -v a="$(loss run-a 1)" -v b="$(loss run-b 1)" 'BEGIN { d = a - b; exit !(a > 0 && d < 1e-5 && d > -1e-5) }'
}

@test "an adapter that does not fit the run is refused with what differs" {
    train run-x "lora.init=$tmp/adapter" lora.rank=8
    [ "$status" -eq 2 ]
    [[ "$output" == *"has rank 4, lora.rank is 8"* ]]
    train run-x "lora.init=$tmp/adapter" lora.alpha=16
    [ "$status" -eq 2 ]
    [[ "$output" == *"is scaled by 2, lora.alpha and lora.rslora give 4"* ]]
    train run-x "lora.init=$tmp/adapter" lora.targets=q_proj,v_proj
    [ "$status" -eq 2 ]
    [[ "$output" == *"has matrices for k_proj, which is not in lora.targets"* ]]
    train run-x lora.init=tests/golden/adapter/plain
    [ "$status" -eq 1 ]
    [[ "$output" == *"does not fit the base model"* ]]
    train run-x "lora.init=$tmp/nowhere"
    [ "$status" -eq 1 ]
    [ ! -e "$tmp/run-x" ]
}

@test "a resumed run must start from the same adapter" {
    train run-r "lora.init=$tmp/adapter"
    [ "$status" -eq 0 ]
    train run-r train.max_steps=4
    [ "$status" -eq 1 ]
    [[ "$output" == *"lora.init"* ]]
}

@test "a run that started from an adapter goes on to the same bits" {
    "$bin"/fttrain train "$tmp/run.json" run.dir="$tmp/whole" "lora.init=$tmp/adapter" checkpoint.every=1
    "$bin"/fttrain train "$tmp/run.json" run.dir="$tmp/cut" "lora.init=$tmp/adapter" checkpoint.every=1
    rm -r "$tmp/cut/checkpoints/step_3" "$tmp/cut/summary.json" "$tmp/cut/adapter"
    # The same adapter by another path: the checkpoint holds what became of it.
    cd "$tmp"
    run "$OLDPWD/$bin/fttrain" train run.json run.dir=cut lora.init=adapter checkpoint.every=1
    [ "$status" -eq 0 ]
    [[ "$output" == *"going on after step 2"* ]]
    cmp whole/adapter/adapter_model.safetensors cut/adapter/adapter_model.safetensors
}
