#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Any allocation, read or write may fail while a run goes on from a checkpoint: one clean error, and
# the next start reaches the same adapter. Needs a build with the fault hooks (config=asan).

load common

setup_file() {
    load common
    fault=$PWD/build/asan
    [ -x "$fault/fttrain" ] || { echo "build it first: make config=asan tests" && return 1; }
    make_inputs faults
    train seed train.max_steps=2
    # Stopped after step 1, before its evaluation: every duty is still to be done.
    rm -r "$dir/seed/checkpoints/step_2" "$dir/seed/summary.json" "$dir/seed/adapter"
    train whole train.max_steps=2
}

setup() {
    use_inputs faults
    fault=$PWD/build/asan
}

adapter_sum() {
    cksum < "$dir/out/adapter/adapter_model.safetensors"
}

# sweep KIND: the n-th call of the kind fails, for growing n, until the run gets through.
sweep() {
    local n=1 code want
    want=$(cksum < "$dir/whole/adapter/adapter_model.safetensors")
    while :; do
        rm -rf "$dir/out" && cp -r "$dir/seed" "$dir/out"
        code=0
        FT_FAULT=$1:$n "$fault/fttrain" train "$dir/run.json" "run.dir=$dir/out" train.max_steps=2 \
            > /dev/null 2> "$dir/errors" || code=$?
        echo "$1 fault $n: exit code $code"
        refute grep -qE 'Sanitizer|runtime error' "$dir/errors"
        [ "$code" -le 2 ]
        if [ "$code" -ne 0 ]; then
            [ "$(grep -c 'error: ' "$dir/errors")" -eq 1 ]
            [ ! -e "$dir/out/summary.json" ]
            train out train.max_steps=2 > /dev/null 2>&1
        fi
        [ "$want" = "$(adapter_sum)" ]
        [ "$code" -ne 0 ] || return 0
        n=$((n < 16 ? n + 1 : n + n / 5))
    done
}

@test "failing allocations" {
    sweep alloc
}

@test "failing reads" {
    sweep read
}

@test "failing writes" {
    sweep write
}
