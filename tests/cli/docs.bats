#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The commands in the documentation run as they are written.

setup() {
    cd "$BATS_TEST_DIRNAME/../.."
    bin=${FT_BIN:-build/release}
    mkdir -p build/docs
}

# blocks PAGE LANGUAGE: the lines of its code blocks of that language.
blocks() {
    awk -v want="$2" '/^```/ { inside = !inside; take = inside && $0 == "```" want; next } take' "docs/$1"
}

# commands_of PAGE AT_LEAST: every line of a code block that starts with ftprep, in order.
commands_of() {
    blocks "$1" "" | grep '^ftprep ' > "$BATS_TEST_TMPDIR/commands"
    [ "$(wc -l < "$BATS_TEST_TMPDIR/commands")" -ge "$2" ]
    while read -r _ rest; do
        # shellcheck disable=SC2086
        "$bin/ftprep" $rest > /dev/null 2>&1 || { echo "ftprep $rest"; false; }
    done < "$BATS_TEST_TMPDIR/commands"
}

@test "the commands of docs/data.md run" {
    commands_of data.md 4
}

@test "the commands of docs/templates.md run" {
    commands_of templates.md 4
}

@test "docs/templates.md names every template and shows the sample as it is" {
    for t in $("$bin/ftprep" templates); do
        grep -q "\`$t\`" docs/templates.md
    done
    blocks templates.md json | cmp - data-samples/template.json
}

@test "the commands of docs/tokenizers.md run" {
    blocks tokenizers.md "" | grep '^ftprep ' > "$BATS_TEST_TMPDIR/commands"
    [ "$(wc -l < "$BATS_TEST_TMPDIR/commands")" -ge 3 ]
    while read -r line; do
        PATH=$PWD/$bin:$PATH bash -c "$line" > /dev/null
    done < "$BATS_TEST_TMPDIR/commands"
}
