#!/usr/bin/env bats
# ftprep quantize: what it replaces and never replaces, and what a signal leaves behind.

setup_file() {
    cd "$BATS_TEST_DIRNAME/../.."
    export bin=$PWD/${FT_BIN:-build/release}
    "$bin"/tests/tools/make_tiny "$BATS_FILE_TMPDIR/model"
}

setup() {
    cd "$BATS_TEST_TMPDIR"
    model=$BATS_FILE_TMPDIR/model
}

# refuses CODE TEXT ARGUMENT...: exit code and part of the message.
refuses() {
    local code=$1 text=$2
    shift 2
    run "$bin/ftprep" quantize "$@"
    [ "$status" -eq "$code" ] || { echo "exit code $status: $output"; false; }
    [[ "$output" == *"$text"* ]] || { echo "message: $output"; false; }
    [ -z "$(ls -d ./*.tmp.* 2> /dev/null)" ]
}

@test "an earlier .nf4 file is only replaced with --force" {
    "$bin/ftprep" quantize "$model" --out a.nf4
    "$bin/ftprep" quantize "$model" --out b.nf4 --quant-from bf16
    cp a.nf4 kept.nf4
    refuses 1 "a.nf4 exists; --force replaces it" "$model" --out a.nf4 --quant-from bf16
    cmp a.nf4 kept.nf4
    "$bin/ftprep" quantize "$model" --out a.nf4 --quant-from bf16 --force
    cmp a.nf4 b.nf4
}

@test "--force replaces neither another file nor the model itself" {
    cp -r "$model" model
    echo precious > notes.txt
    refuses 1 "--force replaces .nf4 files only" "$model" --out notes.txt --force
    grep -q precious notes.txt
    refuses 1 "--force replaces .nf4 files only" model --out model/model.safetensors --force
    cmp "$model/model.safetensors" model/model.safetensors
    printf 'GGUF' > model.gguf
    ln model.gguf link.gguf
    refuses 2 "link.gguf is the model that is to be read" model.gguf --out link.gguf --force
    [ "$(cat model.gguf)" = GGUF ]
}

@test "directories, devices and pipes are refused before the model is read" {
    mkdir d
    mkfifo p
    refuses 1 "d: is a directory, expected a file name" absent --out d --force
    refuses 1 "/dev/full: is a device, expected a file name" absent --out /dev/full --force
    refuses 1 "p: is a pipe or socket, expected a file name" absent --out p
    [ -d d ] && [ -p p ] && [ -c /dev/full ]
}

# A model of 2.1 billion zero weights, the holes of a sparse file.
large_model() {
    mkdir large
    python3 - << 'PY'
import json, struct
hidden, layers, vocab = 2048, 32, 64
config = dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=hidden, intermediate_size=4 * hidden,
              num_hidden_layers=layers, num_attention_heads=16, num_key_value_heads=16, vocab_size=vocab,
              rms_norm_eps=1e-5, rope_theta=10000.0, max_position_embeddings=2048, hidden_act="silu",
              tie_word_embeddings=True, torch_dtype="bfloat16")
json.dump(config, open("large/config.json", "w"))
shapes = {"model.embed_tokens.weight": [vocab, hidden], "model.norm.weight": [hidden]}
for i in range(layers):
    p = f"model.layers.{i}."
    for k in "qkvo":
        shapes[f"{p}self_attn.{k}_proj.weight"] = [hidden, hidden]
    for k, shape in dict(gate=[4 * hidden, hidden], up=[4 * hidden, hidden], down=[hidden, 4 * hidden]).items():
        shapes[f"{p}mlp.{k}_proj.weight"] = shape
    for k in "input", "post_attention":
        shapes[f"{p}{k}_layernorm.weight"] = [hidden]
header, at = {}, 0
for name, shape in shapes.items():
    end = at + 2 * shape[0] * (shape[1] if len(shape) == 2 else 1)
    header[name] = dict(dtype="BF16", shape=shape, data_offsets=[at, end])
    at = end
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open("large/model.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text)
    f.truncate(8 + len(text) + at)
PY
}

# stops SIGNAL COMMAND...: the signal comes once the command has begun to write ./out*.tmp.*.
stops() {
    local signal=$1
    shift
    "$@" > /dev/null 2> err 3>&- &
    local pid=$! status=0
    until ls -d out*.tmp.* > /dev/null 2>&1; do kill -0 $pid; done
    kill -"$signal" $pid
    wait $pid || status=$?
    cat err
    [ "$status" -eq 3 ]
    grep -q "stopped on request; nothing was written" err
    [ -z "$(ls -d out* 2> /dev/null)" ]
}

@test "SIGINT and SIGTERM end quantize and export with exit code 3 and nothing left" {
    large_model
    stops TERM "$bin/ftprep" quantize large --out out.nf4 --no-tokenizer
    stops INT "$bin/ftprep" quantize large --out out.nf4 --no-tokenizer
    stops TERM "$bin/ftprep" export --format merged --base large --out out
    stops INT "$bin/ftprep" export --format merged --base large --out out
}
