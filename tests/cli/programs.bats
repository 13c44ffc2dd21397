#!/usr/bin/env bats
# What both programs share: help, version, manual pages, unknown names, exit codes.

setup() {
    cd "$BATS_TEST_DIRNAME/../.."
    bin=${FT_BIN:-build/release}
}

@test "help explains every command with examples" {
    for p in ftprep fttrain; do
        run "$bin/$p" --help
        [ "$status" -eq 0 ]
        [[ "$output" == *"exit codes:"* ]]
        for c in $("$bin/$p" commands); do
            run "$bin/$p" "$c" --help
            [ "$status" -eq 0 ]
            [[ "$output" == *"usage: $p $c"* ]]
            [[ "$output" == *"options:"* ]]
            [[ "$output" == *"examples:"* ]] || { echo "$p $c has no examples"; false; }
        done
    done
}

@test "version is printed" {
    run "$bin/ftprep" --version
    [[ "$output" =~ ^ftprep\ [0-9]+\.[0-9]+\.[0-9]+ ]]
    run "$bin/fttrain" --version
    [[ "$output" =~ ^fttrain\ [0-9]+\.[0-9]+\.[0-9]+ ]]
}

@test "an unknown command or option is exit code 2 and names the nearest" {
    run "$bin/ftprep" biuld
    [ "$status" -eq 2 ]
    [[ "$output" == *"did you mean 'build'?"* ]]
    run "$bin/ftprep" quantize --ouut x model
    [ "$status" -eq 2 ]
    [[ "$output" == *"did you mean 'out'?"* ]]
    run "$bin/fttrain"
    [ "$status" -eq 2 ]
}

@test "a missing argument says what is expected" {
    run "$bin/ftprep" quantize --out x
    [ "$status" -eq 2 ]
    [[ "$output" == *"expected"* ]]
    run "$bin/ftprep" build rows.jsonl
    [ "$status" -eq 2 ]
    [[ "$output" == *"required"* ]]
}

@test "output that cannot be written is an error" {
    run bash -c "'$bin/ftprep' --help > /dev/full"
    [ "$status" -eq 1 ]
}

@test "install puts programs and manual pages under DESTDIR" {
    dest="${FT_TEST_TMP:-build/test-tmp}/dest"
    rm -rf "$dest"
    run make --no-print-directory install DESTDIR="$dest" PREFIX=/opt/ft
    [ "$status" -eq 0 ]
    [ -x "$dest/opt/ft/bin/ftprep" ]
    [ -x "$dest/opt/ft/bin/fttrain" ]
    for f in "$dest"/opt/ft/share/man/man1/*.1; do
        [ -s "$f" ]
        head -1 "$f" | grep -q '^\.TH '
    done
    [ -e "$dest/opt/ft/share/man/man1/ftprep-build.1" ]
    run make --no-print-directory uninstall DESTDIR="$dest" PREFIX=/opt/ft
    [ "$status" -eq 0 ]
    [ -z "$(find "$dest" -type f)" ]
}

@test "the examples of every command are indented, and ftprep says what stopping leaves" {
    for c in $("$bin/ftprep" commands); do
        examples=$("$bin/ftprep" "$c" --help | sed '1,/^examples:$/d')
        [ -n "$examples" ]
        [ "$(grep -c "^[^ ]" <<< "$examples")" -eq 0 ]
    done
    "$bin/ftprep" --help | grep -q "  3  stopped on request; nothing was written, start it again"
}
