#!/usr/bin/env bats
# The installed library: the example of docs/libftok.md, shared and static, and what it exports.

setup_file() {
    cd "$BATS_TEST_DIRNAME/../.."
    export dest="$BATS_FILE_TMPDIR/root"
    make --no-print-directory install DESTDIR="$dest" PREFIX=/opt/ft > /dev/null
    sed -n '/^```c$/,/^```$/p' docs/libftok.md | sed '1d;$d' > "$BATS_FILE_TMPDIR/example.c"
    grep -q ftok_open "$BATS_FILE_TMPDIR/example.c"
}

setup() {
    cd "$BATS_TEST_DIRNAME/../.."
    bin=${FT_BIN:-build/release}
    lib="$dest/opt/ft/lib"
    export PKG_CONFIG_PATH="$lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$dest" LD_LIBRARY_PATH="$lib"
    tiny=data-samples/tokenizer-tiny.json
    text='Hello, wörld 42'
}

expect_answer() { # PROGRAM
    local ids
    ids=$(printf '%s' "$text" | "$bin/ftprep" tokenize --tokenizer "$tiny")
    run "$1" "$tiny" "$text"
    [ "$status" -eq 0 ]
    [ "$(sed 's/^[0-9]* tokens: //; s/@[0-9]*//g' <<< "${lines[0]}")" = "$ids" ]
    [ "${lines[1]}" = "$text" ]
}

@test "the documented example runs with the shared library" {
    cc -std=c99 -pedantic -Wall -Werror -o "$BATS_TEST_TMPDIR/example" "$BATS_FILE_TMPDIR/example.c" \
        $(pkg-config --cflags --libs ftok)
    expect_answer "$BATS_TEST_TMPDIR/example"
}

@test "the documented example runs with the static library alone" {
    cc -o "$BATS_TEST_TMPDIR/example" "$BATS_FILE_TMPDIR/example.c" $(pkg-config --cflags ftok) \
        "$lib/libftok.a" $(pkg-config --static --libs-only-l ftok | sed 's/-lftok//') -pthread
    ! ldd "$BATS_TEST_TMPDIR/example" | grep libftok
    expect_answer "$BATS_TEST_TMPDIR/example"
}

@test "only names that begin with ftok_ are visible" {
    [ "$(nm -D --defined-only "$lib/libftok.so" | awk '{print $3}' | grep -vc '^ftok_')" -eq 0 ]
    [ "$(nm -g --defined-only "$lib/libftok.a" | awk 'NF == 3 {print $3}' | grep -vc '^ftok_')" -eq 0 ]
    declared=$(grep -oE '\bftok_[a-z0-9_]+\(' formats/tok/ftok.h | tr -d '(' | sort -u)
    exported=$(nm -D --defined-only "$lib/libftok.so" | awk '{print $3}' | sort -u)
    [ "$declared" = "$exported" ]
}

@test "errors come as text" {
    cc -o "$BATS_TEST_TMPDIR/example" "$BATS_FILE_TMPDIR/example.c" $(pkg-config --cflags --libs ftok)
    run "$BATS_TEST_TMPDIR/example" no-such-file
    [ "$status" -eq 1 ]
    [[ "$output" == *"no-such-file"*"No such file"* ]]
}
