#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A run that was stopped, killed or damaged goes on to the bits of one that never was.

load common

setup_file() {
    load common
    make_inputs resume
    local started=${EPOCHREALTIME/./}
    train whole 2> /dev/null > /dev/null
    echo $(((${EPOCHREALTIME/./} - started) / 1000)) > "$dir/milliseconds"
}

setup() {
    use_inputs resume
}

@test "twenty kills at random moments change no bit" {
    local kills=0 resumed=0 code after window
    window=$(<"$dir/milliseconds") # a kill comes anywhere in the time that the whole run takes
    RANDOM=7
    for ((i = 0; i < 200 && kills < 20; i++)); do
        code=0
        after=$((RANDOM % window + 5))
        { timeout -s KILL "$((after / 1000)).$(printf '%03d' $((after % 1000)))" "$bin/fttrain" train \
            "$dir/run.json" "run.dir=$dir/killed" 2> "$dir/killed.log" > /dev/null || code=$?; } 2> /dev/null
        ! grep -q "going on after step" "$dir/killed.log" || resumed=$((resumed + 1))
        case $code in
        137) kills=$((kills + 1)) ;;
        0) same_run whole killed && rm -rf "$dir/killed" ;; # once more from the start
        *) cat "$dir/killed.log" && false ;;
        esac
    done
    echo "$kills kills, $resumed resumes in $i runs of up to $window ms"
    [ "$kills" -eq 20 ] && [ "$resumed" -ge 8 ]
    [ -e "$dir/killed/summary.json" ] || train killed
    same_run whole killed
}

@test "SIGTERM, SIGINT and SIGUSR1 save, exit with 3, and the run goes on" {
    for signal in TERM INT USR1; do
        start "stop-$signal" "$in_first_step" "${slow[@]}"
        kill -s "$signal" "$pid"
        finish "stop-$signal"
        [ "$code" -eq 3 ]
        grep -q "stopped on SIG$signal after step 1 of 3" "$dir/stop-$signal.log"
        grep -q "the same command goes on" "$dir/stop-$signal.log"
        refute grep -q "error" "$dir/stop-$signal.log"
        [ -e "$dir/stop-$signal/checkpoints/step_1/COMMIT" ]
    done
    train slow-whole "${slow[@]}"
    run train stop-TERM "${slow[@]}"
    [ "$status" -eq 0 ]
    # Tokens and seconds of this process only.
    [[ "$output" == *"tokens/s, "*" since the resume, peak memory"* ]]
    diff <(history slow-whole) <(history stop-TERM)
    cmp "$dir"/{slow-whole,stop-TERM}/adapter/adapter_model.safetensors
}

@test "a second SIGINT ends the process at once" {
    start twice "$in_first_step" "${slow[@]}"
    kill -INT "$pid"
    while kill -INT "$pid" 2> /dev/null && [ -d "/proc/$pid" ] &&
        ! grep -q '^State:.*Z' "/proc/$pid/status" 2> /dev/null; do :; done
    finish twice
    [ "$code" -eq 130 ]
    # The first one began to save; what it did not finish does not look whole.
    for checkpoint in "$dir"/twice/checkpoints/step_[0-9]; do
        [ ! -e "$checkpoint" ] || [ -e "$checkpoint/COMMIT" ]
    done
}

@test "a stop during the evaluation makes up for it after the resume" {
    # Stopped as soon as it is ready: the evaluation of step 0 is under way or about to be.
    start early "$is_ready"
    kill -TERM "$pid"
    finish early
    [ "$code" -eq 3 ]
    train early
    same_run whole early
}

@test "a damaged newest checkpoint is skipped with a warning" {
    train damaged
    newest=$(ls "$dir/damaged/checkpoints" | sort -t_ -k2 -n | tail -1)
    before=$(ls "$dir/damaged/checkpoints" | sort -t_ -k2 -n | tail -2 | head -1)
    rm "$dir/damaged/summary.json"
    printf 'x' | dd of="$dir/damaged/checkpoints/$newest/optimizer.bin" bs=1 seek=100 conv=notrunc 2> /dev/null
    run train damaged
    [ "$status" -eq 0 ]
    [[ "$output" == *"skipping a checkpoint:"*"optimizer.bin: is damaged"* ]]
    [[ "$output" == *"from $dir/damaged/checkpoints/$before"* ]]
    same_run whole damaged
}

@test "only damaged checkpoints are an error, not a fresh start" {
    train ruined train.max_steps=3
    for c in "$dir"/ruined/checkpoints/*; do rm "$c/COMMIT"; done
    run train ruined train.max_steps=3
    [ "$status" -eq 1 ]
    [[ "$output" == *"every checkpoint is damaged"* ]]
}

@test "a finished run says so and is left alone" {
    sum=$(cat "$dir"/whole/adapter/* "$dir/whole/metrics.jsonl" | cksum)
    run train whole
    [ "$status" -eq 1 ]
    [[ "$output" == *"is a finished run of"*"choose another run.dir"* ]]
    [ "$sum" = "$(cat "$dir"/whole/adapter/* "$dir/whole/metrics.jsonl" | cksum)" ]
}

@test "a run that died before its summary finishes without training again" {
    cp -r "$dir/whole" "$dir/unfinished"
    rm -r "$dir/unfinished/summary.json" "$dir/unfinished/adapter"
    train unfinished
    same_run whole unfinished
}

@test "what shapes the run may not change, the rest may" {
    start changed "$is_ready" train.max_steps=400
    kill -TERM "$pid"
    finish changed
    [ "$code" -eq 3 ]
    run train changed train.max_steps=400 lora.rank=8
    [ "$status" -eq 1 ]
    [[ "$output" == *"lora.rank is 8 now, but 4 in the checkpoint"* ]]
    run train changed train.max_steps=400 run.seed=9
    [[ "$output" == *"run.seed is 9 now"* ]]
    run train changed train.max_steps=16
    [[ "$output" == *"train.max_steps is 16 now, but 400"* ]]
    run timeout -s TERM --preserve-status 2 "$bin/fttrain" train "$dir/run.json" \
        "run.dir=$dir/changed" train.max_steps=400 run.threads=1 memory.recompute=true checkpoint.keep=3
    [ "$status" -eq 3 ] || [ "$status" -eq 0 ]
}

@test "another base or another data set is named" {
    train moved train.max_steps=3
    rm "$dir/moved/summary.json"
    "$bin/ftprep" build --tokenizer data-samples/tokenizer-tiny.json --template smollm2 --max-length 256 \
        --eval-fraction 0.2 --out "$dir/data2" "$dir/rows.jsonl" > /dev/null 2>&1
    run train moved train.max_steps=3 "data.path=$dir/data2"
    [ "$status" -eq 1 ]
    [[ "$output" == *"was made with another data set"* ]]
    cp -r "$dir/model" "$dir/model2"
    # One byte of one weight.
    printf '\101' | dd of="$dir/model2/model.safetensors" bs=1 conv=notrunc \
        seek=$(($(stat -c %s "$dir/model2/model.safetensors") - 6)) 2> /dev/null
    "$bin/ftprep" quantize "$dir/model2" --out "$dir/base2.nf4" > /dev/null 2>&1
    run train moved train.max_steps=3 "base.path=$dir/base2.nf4"
    [ "$status" -eq 1 ]
    [[ "$output" == *"was made with another base model"* ]]
}

@test "run.resume=never refuses a directory that holds a run" {
    run train whole run.resume=never
    [ "$status" -eq 1 ]
    [[ "$output" == *"run.resume is never"* ]]
}

@test "run.resume=PATH goes on from a checkpoint of another run" {
    train source checkpoint.keep=100
    train branch "run.resume=$dir/source/checkpoints/step_4"
    cmp "$dir"/{whole,branch}/adapter/adapter_model.safetensors
    run train source "run.resume=$dir/source/checkpoints/step_4"
    [ "$status" -eq 1 ]
    [[ "$output" == *"already holds step"* ]]
    run train branch2 "run.resume=$dir/nowhere"
    [ "$status" -eq 2 ]
    [[ "$output" == *"there is no directory $dir/nowhere"* ]]
}

@test "a directory in use is refused while the other run lives" {
    start locked "$is_ready" "${slow[@]}"
    run train locked "${slow[@]}"
    [ "$status" -eq 1 ]
    [[ "$output" == *"another fttrain (process $pid) writes this run"* ]]
    kill -KILL "$pid"
    finish locked
    run train locked "${slow[@]}" train.max_steps=1
    [ "$status" -eq 0 ]
}

@test "the newest checkpoints and the best one are kept" {
    train kept checkpoint.keep=2 optimizer.lr=0.5 optimizer.clip=0
    best=$(sed -nE 's/.*"best_step": ([0-9]+).*/\1/p' "$dir/kept/summary.json")
    n=$(ls "$dir/kept/checkpoints" | wc -l)
    [ -e "$dir/kept/checkpoints/step_$best/COMMIT" ]
    [ "$n" -ge 2 ] && [ "$n" -le 3 ]
    if command -v xxh128sum > /dev/null; then
        (cd "$dir/kept/checkpoints/step_$best" && xxh128sum -c COMMIT)
    fi
}

@test "a checkpoint is an adapter that generate takes" {
    newest=$(ls -d "$dir"/whole/checkpoints/step_* | tail -1)
    run "$bin/fttrain" generate --base "$dir/base.nf4" --adapter "$newest" --prompt hi --max-tokens 3
    [ "$status" -eq 0 ]
}
