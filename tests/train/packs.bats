#!/usr/bin/env bats
# Runs on pack plans made by ftprep pack.

load common

setup_file() { make_inputs packs; }
setup() { use_inputs packs; }

packed=(batch.mode=packed batch.micro=2 batch.accumulate=2)

@test "a run takes a plan by name, with the same bits each time" {
    "$bin/ftprep" pack "$dir/data" --name chop --mode chop --length 64 --shuffle-seed 5 --force
    "$bin/ftprep" verify "$dir/data"
    train whole "${packed[@]}" data.plan=chop train.max_steps=8
    train again "${packed[@]}" data.plan=chop train.max_steps=8
    [ -s "$dir/whole/adapter/adapter_model.safetensors" ]
    same_run whole again
}

@test "another plan is another data set for a resumed run" {
    "$bin/ftprep" pack "$dir/data" --name one --shuffle-seed 1 --force
    "$bin/ftprep" pack "$dir/data" --name two --shuffle-seed 2 --force
    train moved "${packed[@]}" data.plan=one train.max_steps=4 schedule.kind=constant schedule.warmup_steps=0
    run train moved "${packed[@]}" data.plan=two train.max_steps=8 schedule.kind=constant schedule.warmup_steps=0
    [ "$status" -eq 1 ]
    [[ "$output" == *"data set"* ]]
}

@test "a plan that does not fit or has no effect is refused" {
    run train none "${packed[@]}" data.plan=nosuch
    [ "$status" -eq 1 ]
    [[ "$output" == *"train-nosuch.packs"* ]]
    "$bin/ftprep" pack "$dir/data" --name any --force
    run train grouped data.plan=any
    [ "$status" -eq 2 ]
    [[ "$output" == *"data.plan has no effect because batch.mode is not packed"* ]]
}

@test "whole samples need the room of the longest one" {
    run "$bin/ftprep" pack "$dir/data" --name tight --length 8
    [ "$status" -eq 2 ]
    [[ "$output" == *"--mode chop cuts them"* ]]
    run "$bin/ftprep" pack "$dir/data" --name any
    [ "$status" -eq 1 ]
    [[ "$output" == *"--force replaces it"* ]]
}
