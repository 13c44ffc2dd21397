#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# fttrain generate: reproducible, streaming, and clear about what it refuses.

load common

setup_file() {
    load common
    make_inputs generate
    train run 2> /dev/null > /dev/null
}

setup() {
    use_inputs generate
}

# Answers only, without the speed line.
ask() {
    "$bin/fttrain" generate --base "$dir/base.nf4" --max-tokens 12 "$@" 2> /dev/null
}

@test "greedy answers repeat over runs and threads" {
    a=$(ask --prompt "hello" --threads 1)
    [ -n "$a" ]
    [ "$a" = "$(ask --prompt "hello" --threads 1)" ]
    [ "$a" = "$(ask --prompt "hello" --threads 4)" ]
}

@test "sampled answers are a function of the seed" {
    one=(--temperature 1.5 --top-p 0.95 --top-k 50)
    a=$(ask --prompt "hello" "${one[@]}" --seed 3)
    [ "$a" = "$(ask --prompt "hello" "${one[@]}" --seed 3)" ]
    [ "$a" != "$(ask --prompt "hello" "${one[@]}" --seed 4)" ]
}

@test "an adapter changes the answer" {
    "$bin/fttrain" train "$dir/run.json" "run.dir=$dir/strong" optimizer.lr=0.1 train.max_steps=40 \
        2> /dev/null > /dev/null
    a=$(ask --prompt "hello")
    b=$(ask --prompt "hello" --adapter "$dir/strong/adapter")
    [ "$a" != "$b" ]
    # The run finds its adapter.
    [ "$b" = "$(ask --prompt "hello" --adapter "$dir/strong")" ]
}

@test "prompts are read line by line, each answered as if alone" {
    alone=$(ask --prompt "second one" --json | sed 's/, "prompt_seconds".*//')
    run bash -c "printf 'first\nsecond one\n' | '$bin/fttrain' generate --base '$dir/base.nf4' \
        --max-tokens 12 --prompt - --json 2> /dev/null"
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 2 ]
    [ "$alone" = "${lines[1]%%, \"prompt_seconds\"*}" ]
}

@test "blank lines are no prompts" {
    run bash -c "printf '\n  \nfirst\n\n' | '$bin/fttrain' generate --base '$dir/base.nf4' \
        --max-tokens 3 --prompt - --json 2> /dev/null"
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 1 ]
    [[ "${lines[0]}" == *'"prompt": "first"'* ]]
}

@test "output is UTF-8 whatever the model produces" {
    for seed in 1 2 3 4 5 6; do
        ask --prompt "x" --temperature 5 --seed $seed --max-tokens 80 | iconv -f UTF-8 -t UTF-8 > /dev/null
    done
}

@test "speed goes to standard error" {
    run bash -c "'$bin/fttrain' generate --base '$dir/base.nf4' --prompt hi --max-tokens 4 2>&1 > /dev/null"
    [[ "$output" == *"prompt tokens at"*"new tokens at"* ]]
}

@test "options without effect and impossible lengths are refused" {
    run "$bin/fttrain" generate --base "$dir/base.nf4" --prompt hi --top-p 0.5
    [ "$status" -eq 2 ]
    [[ "$output" == *"no effect with --temperature 0"* ]]
    run "$bin/fttrain" generate --base "$dir/base.nf4" --prompt hi --raw --system x
    [ "$status" -eq 2 ]
    run "$bin/fttrain" generate --base "$dir/base.nf4" --prompt hi --template nonsense
    [ "$status" -eq 2 ]
    [[ "$output" == *"'nonsense' is not known; there are auto, smollm2"* ]]
    run "$bin/fttrain" generate --base "$dir/base.nf4" --prompt hi --context 10
    [ "$status" -eq 1 ]
    [[ "$output" == *"lower --max-tokens or raise --context"* ]]
    run "$bin/fttrain" generate --base "$dir/base.nf4" --prompt hi --max-tokens 50000
    [ "$status" -eq 1 ]
    [[ "$output" == *"together more than the 2048 of the model; lower --max-tokens"* ]]
    refute grep -q "raise --context" <<< "$output"
    run "$bin/fttrain" generate --base "$dir/base.nf4" --prompt hi --context 100000
    [ "$status" -eq 2 ]
    [[ "$output" == *"--context is 100000, but $dir/base.nf4 handles 2048 tokens at most"* ]]
    run "$bin/fttrain" generate --base "$dir/base.nf4" --prompt "" --raw
    [ "$status" -eq 2 ]
}

@test "an adapter of another shape is refused" {
    sed 's/"r": 4/"r": 5/' "$dir/run/adapter/adapter_config.json" > "$dir/config"
    cp -r "$dir/run/adapter" "$dir/other" && cp "$dir/config" "$dir/other/adapter_config.json"
    run "$bin/fttrain" generate --base "$dir/base.nf4" --adapter "$dir/other" --prompt hi
    [ "$status" -eq 1 ]
    [[ "$output" == *"$dir/other"* ]]
}

@test "output that cannot be written is an error" {
    run bash -c "'$bin/fttrain' generate --base '$dir/base.nf4' --prompt hi --max-tokens 4 2> /dev/null > /dev/full"
    [ "$status" -eq 1 ]
}

@test "named templates ask the question, if the tokenizer has what they need" {
    for t in smollm2 internlm_chat internlm2_chat qwen_chat deepseek_v2 minicpm3 cohere_chat llama3_chat phi3_chat; do
        run ask --prompt hi --system s --template "$t" --max-tokens 2 --json
        [ "$status" -eq 0 ]
    done
    run "$bin/fttrain" generate --base "$dir/base.nf4" --prompt hi --template mistral
    [ "$status" -eq 1 ]
    [[ "$output" == *"'mistral' ends every turn with the tokenizer's EOS, but the tokenizer names none"* ]]
}

@test "an answer ends in front of a stop word of the template" {
    ends='"SUFFIX": "<|im_end|>", "SUFFIX_AS_EOS": true'
    echo "{\"INSTRUCTION\": \"{input}\", $ends}" > "$dir/mine.json"
    whole=$(ask --prompt hi --template "$dir/mine.json" --max-tokens 24)
    word=${whole:5:3}
    echo "{\"INSTRUCTION\": \"{input}\", $ends, \"STOP_WORDS\": [\"$word\"]}" > "$dir/mine.json"
    run ask --prompt hi --template "$dir/mine.json" --max-tokens 24 --json
    [ "$status" -eq 0 ]
    [[ "$output" == *'"stopped": true'* ]]
    [ "$(ask --prompt hi --template "$dir/mine.json" --max-tokens 24)" = "${whole%%"$word"*}" ]
}

@test "a run answers its sample prompts with the data set's own template" {
    echo '{"SYSTEM": "{system}\n", "INSTRUCTION": "Q: {input}\nA: ", "SUFFIX": "<|im_end|>", "SUFFIX_AS_EOS": true}' > "$dir/qa.json"
    "$bin/ftprep" build --tokenizer "$dir/model" --template "$dir/qa.json" --max-length 256 --eval-fraction 0.1 \
        --out "$dir/qa" "$dir/rows.jsonl" > /dev/null 2>&1
    rm "$dir/qa.json"
    train qa_run data.path="$dir/qa" train.max_steps=1 sample.every=1
    grep -q '"prompt": "Which command, then?"' "$dir/qa_run/samples.jsonl"
}
