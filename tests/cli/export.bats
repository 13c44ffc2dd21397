#!/usr/bin/env bats
# ftprep export on a tiny model: every format, every refusal, nothing half-written.

setup_file() {
    cd "$BATS_TEST_DIRNAME/../.."
    export bin=${FT_BIN:-build/release}
    export tmp=${FT_TEST_TMP:-build/test-tmp}/export
    rm -rf "$tmp" && mkdir -p "$tmp"
    "$bin"/tests/tools/make_tiny "$tmp/model" "$tmp/adapter"
    "$bin"/ftprep quantize "$tmp/model" --out "$tmp/base.nf4"
}

setup() {
    cd "$BATS_TEST_DIRNAME/../.."
    rm -rf "$tmp"/out*
}

no_leftovers() {
    ! compgen -G "$tmp/*.tmp.*" && ! compgen -G "$tmp/*.old.*"
}

@test "peft without conversion copies the tensors bit for bit" {
    run "$bin"/ftprep export --format peft --adapter "$tmp/adapter" --out "$tmp/out"
    [ "$status" -eq 0 ]
    cmp "$tmp/adapter/adapter_model.safetensors" "$tmp/out/adapter_model.safetensors"
    cmp "$tmp/adapter/adapter_config.json" "$tmp/out/adapter_config.json"
    [ "$(ls "$tmp/out" | wc -l)" -eq 2 ]
    no_leftovers
}

@test "peft with a base adds the chat template and a Modelfile" {
    run "$bin"/ftprep export --format peft --adapter "$tmp/adapter" --base "$tmp/model" --out "$tmp/out" --dtype bf16
    [ "$status" -eq 0 ]
    cmp "$tmp/model/chat_template.jinja" "$tmp/out/chat_template.jinja"
    grep -q "^FROM $(realpath "$tmp/model")$" "$tmp/out/Modelfile"
    grep -q '^ADAPTER \.$' "$tmp/out/Modelfile"
    grep -q '^TEMPLATE """' "$tmp/out/Modelfile"
    grep -q '^PARAMETER stop "<|im_end|>"$' "$tmp/out/Modelfile"
    grep -qa '"BF16"' "$tmp/out/adapter_model.safetensors"
}

@test "the adapter of a run or a checkpoint directory is found" {
    mkdir -p "$tmp/out-run" && cp -r "$tmp/adapter" "$tmp/out-run/adapter"
    run "$bin"/ftprep export --format peft --adapter "$tmp/out-run" --out "$tmp/out"
    [ "$status" -eq 0 ]
    cmp "$tmp/adapter/adapter_model.safetensors" "$tmp/out/adapter_model.safetensors"
}

@test "merged writes a whole Hugging Face model that can be quantised again" {
    run "$bin"/ftprep export --format merged --adapter "$tmp/adapter" --base "$tmp/model" --out "$tmp/out" --dtype f32
    [ "$status" -eq 0 ]
    [[ "$output" == *"merged into the original weights"* ]]
    for f in config.json generation_config.json model.safetensors tokenizer.json chat_template.jinja Modelfile; do
        [ -s "$tmp/out/$f" ]
    done
    cmp "$tmp/model/tokenizer.json" "$tmp/out/tokenizer.json"
    cmp "$tmp/model/config.json" "$tmp/out/config.json"
    grep -q '^FROM \.$' "$tmp/out/Modelfile"
    ! cmp -s "$tmp/model/model.safetensors" "$tmp/out/model.safetensors"
    "$bin"/ftprep quantize "$tmp/out" --out "$tmp/out.nf4"
    no_leftovers
}

@test "merged from an .nf4 file writes the tokenizer from its parsed form" {
    run "$bin"/ftprep export --format merged --adapter "$tmp/adapter" --base "$tmp/base.nf4" --out "$tmp/out"
    [ "$status" -eq 0 ]
    [[ "$output" == *"merged into the dequantised NF4 weights"* ]]
    [[ "$output" == *"in bf16, 1 file"* ]]
    for f in tokenizer.json tokenizer_config.json chat_template.jinja Modelfile; do
        [ -s "$tmp/out/$f" ]
    done
    text='Hello <|im_start|>wörld 123'
    [ "$("$bin"/ftprep tokenize --tokenizer "$tmp/model" <<< "$text")" = "$("$bin"/ftprep tokenize --tokenizer "$tmp/out" <<< "$text")" ]
}

@test "merged without an adapter gives the base back" {
    "$bin"/ftprep export --format merged --base "$tmp/model" --out "$tmp/out" --dtype f32
    [ "$("$bin"/tests/tools/model_dump "$tmp/model" | cksum)" = "$("$bin"/tests/tools/model_dump "$tmp/out" | cksum)" ]
}

@test "the bytes of a merged model do not depend on the threads" {
    for n in 1 3; do
        "$bin"/ftprep export --format merged --adapter "$tmp/adapter" --base "$tmp/base.nf4" --out "$tmp/out$n" --threads $n
    done
    cmp "$tmp/out1/model.safetensors" "$tmp/out3/model.safetensors"
}

@test "gguf-lora writes the file, its template and its Modelfile" {
    run "$bin"/ftprep export --format gguf-lora --adapter "$tmp/adapter" --base "$tmp/base.nf4" --out "$tmp/out.gguf"
    [ "$status" -eq 0 ]
    [ "$(head -c 4 "$tmp/out.gguf")" = GGUF ]
    cmp "$tmp/model/chat_template.jinja" "$tmp/out.jinja"
    grep -q '^ADAPTER out.gguf$' "$tmp/out.Modelfile"
    grep -q '^FROM model$' "$tmp/out.Modelfile"
    run "$bin"/ftprep export --format gguf-lora --adapter "$tmp/adapter" --base "$tmp/base.nf4" --out "$tmp/out"
    [ "$status" -eq 2 ]
    [[ "$output" == *"ends in .gguf"* ]]
}

@test "an existing result is only replaced with --force" {
    "$bin"/ftprep export --format peft --adapter "$tmp/adapter" --out "$tmp/out"
    run "$bin"/ftprep export --format peft --adapter "$tmp/adapter" --out "$tmp/out"
    [ "$status" -eq 1 ]
    [[ "$output" == *"exists; --force replaces it"* ]]
    touch "$tmp/out/stale"
    "$bin"/ftprep export --format peft --adapter "$tmp/adapter" --out "$tmp/out/" --force
    [ ! -e "$tmp/out/stale" ]
    "$bin"/ftprep export --format gguf-lora --adapter "$tmp/adapter" --base "$tmp/model" --out "$tmp/out.gguf"
    run "$bin"/ftprep export --format gguf-lora --adapter "$tmp/adapter" --base "$tmp/model" --out "$tmp/out.gguf"
    [ "$status" -eq 1 ]
    no_leftovers
}

@test "--force never replaces a directory of something else" {
    mkdir -p "$tmp/out-home" && touch "$tmp/out-home/precious"
    run "$bin"/ftprep export --format peft --adapter "$tmp/adapter" --out "$tmp/out-home" --force
    [ "$status" -eq 1 ]
    [[ "$output" == *"is not an earlier export"* ]]
    [ -e "$tmp/out-home/precious" ]
    touch "$tmp/out-file"
    run "$bin"/ftprep export --format peft --adapter "$tmp/adapter" --out "$tmp/out-file" --force
    [ "$status" -eq 1 ]
    [[ "$output" == *"is not a directory"* ]]
}

@test "gguf-lora --force replaces GGUF adapters and nothing else" {
    lora() { run "$bin"/ftprep export --format gguf-lora --adapter "$tmp/adapter" --base "$tmp/model" "$@"; }
    lora --out "$tmp/out.gguf"
    [ "$status" -eq 0 ]
    cp "$tmp/out.gguf" "$tmp/out-first.gguf"
    lora --out "$tmp/out.gguf" --force --dtype f16
    [ "$status" -eq 0 ]
    ! cmp -s "$tmp/out-first.gguf" "$tmp/out.gguf"
    echo precious > "$tmp/out-notes.gguf"
    lora --out "$tmp/out-notes.gguf" --force
    [ "$status" -eq 1 ]
    [[ "$output" == *"--force replaces GGUF adapters only"* ]]
    grep -q precious "$tmp/out-notes.gguf"
    # A GGUF file that does not call itself a LoRA adapter.
    sed 's/adapter\.type/adapter.nope/' "$tmp/out-first.gguf" > "$tmp/out-model.gguf"
    cp "$tmp/out-model.gguf" "$tmp/out-kept"
    lora --out "$tmp/out-model.gguf" --force
    [ "$status" -eq 1 ]
    [[ "$output" == *"is no LoRA adapter"* ]]
    cmp "$tmp/out-model.gguf" "$tmp/out-kept"
    mkdir "$tmp/out-dir.gguf"
    lora --out "$tmp/out-dir.gguf" --force
    [ "$status" -eq 1 ]
    [[ "$output" == *"is a directory, expected a file name"* ]]
    ln "$tmp/base.nf4" "$tmp/out-base.gguf"
    run "$bin"/ftprep export --format gguf-lora --adapter "$tmp/adapter" --base "$tmp/base.nf4" --out "$tmp/out-base.gguf" --force
    [ "$status" -eq 2 ]
    [[ "$output" == *"out-base.gguf is the base"* ]]
    "$bin"/ftprep verify "$tmp/base.nf4"
    no_leftovers
}

@test "an adapter that does not fit the base is refused with what differs" {
    run "$bin"/ftprep export --format merged --adapter tests/golden/adapter/plain --base "$tmp/model" --out "$tmp/out"
    [ "$status" -eq 1 ]
    [[ "$output" == *"does not fit the base model: its q_proj maps 32 features to 32, the model's 64 to 64"* ]]
    [ ! -e "$tmp/out" ]
    no_leftovers
}

@test "unsupported adapters are refused by name" {
    run "$bin"/ftprep export --format peft --adapter tests/golden/adapter/dora --out "$tmp/out"
    [ "$status" -eq 1 ]
    [[ "$output" == *'"use_dora"'* ]]
    [ ! -e "$tmp/out" ]
}

@test "missing and useless options are exit code 2" {
    run "$bin"/ftprep export --format merged --adapter "$tmp/adapter" --out "$tmp/out"
    [ "$status" -eq 2 ]
    [[ "$output" == *"needs --base"* ]]
    run "$bin"/ftprep export --format peft --base "$tmp/model" --out "$tmp/out"
    [ "$status" -eq 2 ]
    [[ "$output" == *"needs --adapter"* ]]
    run "$bin"/ftprep export --format peft --adapter "$tmp/adapter" --out "$tmp/out" --shard-size 5
    [ "$status" -eq 2 ]
    [[ "$output" == *"--shard-size has no effect"* ]]
    run "$bin"/ftprep export --format onnx --adapter "$tmp/adapter" --out "$tmp/out"
    [ "$status" -eq 2 ]
}

@test "values that do not fit f16 are named and leave nothing behind" {
    cp -r "$tmp/adapter" "$tmp/out-big"
    # Make one value of the last tensor huge: its last four bytes become 3e38.
    size=$(stat -c %s "$tmp/out-big/adapter_model.safetensors")
    printf '\x99\x76\x61\x7f' | dd of="$tmp/out-big/adapter_model.safetensors" bs=1 seek=$((size - 4)) conv=notrunc status=none
    run "$bin"/ftprep export --format merged --adapter "$tmp/out-big" --base "$tmp/model" --out "$tmp/out" --dtype f16
    [ "$status" -eq 1 ]
    [[ "$output" == *"layers.1.mlp.down_proj"* ]]
    [[ "$output" == *"--dtype bf16"* ]]
    [ ! -e "$tmp/out" ]
    no_leftovers
}
