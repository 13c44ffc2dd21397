/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/plan.h"

#include "common/file.h"
#include "formats/part.h"
#include "tests/support/check.h"

static void add(struct plan *p, uint32_t source, uint64_t from, uint64_t to, uint64_t row,
                uint64_t n_rows)
{
    ft_error err;
    struct jsonl_piece piece = {.from = from,
                                .to = to,
                                .row = row,
                                .line = row + 1,
                                .n_rows = n_rows,
                                .form = from == 0 ? JSONL_UNKNOWN : JSONL_LINES,
                                .hash = {to, from}};
    ASSERT_OK(plan_add_piece(p, source, &piece, to - from, &err));
    p->manifest.sources[source].rows += n_rows;
}

/* Two files in one group; the first one is cut, the rest of it shares a part with the second. */
static void make(struct plan *p)
{
    static char tokenizer[] = "tokenizer.tok";
    struct manifest *m = &p->manifest;
    ft_error err;
    *p = (struct plan){0};
    m->tool = "test";
    m->chat_template = "smollm2";
    m->n_vocab = 300;
    m->token_bytes = 2;
    m->tokenizer.name = tokenizer;
    m->options = (struct manifest_options){
        .max_length = 9, .part_bytes = 100, .shard_bytes = 100, .compression_level = 3};
    m->n_groups = 1;
    m->groups = arena_alloc(&m->arena, 1, sizeof *m->groups);
    m->groups[0] = (struct manifest_group){.name = "g", .weight = 0.1, .repeat = 2, .limit = 50};
    m->n_sources = 2;
    m->sources = arena_alloc(&m->arena, 2, sizeof *m->sources);
    m->sources[0] = (struct manifest_source){.path = "a"};
    m->sources[1] = (struct manifest_source){.path = "b"};
    add(p, 0, 0, 120, 0, 3);
    ASSERT_OK(plan_close_part(p, &err));
    add(p, 0, 120, 150, 3, 1);
    add(p, 1, 0, 90, 0, 2);
    ASSERT_OK(plan_close_part(p, &err));
    ASSERT_OK(plan_close_part(p, &err)); /* nothing is open: no part */
    assert_int_equal(p->n_parts, 2);
}

static void a_plan_reads_back_as_it_was_written(void **state)
{
    struct plan p, again;
    ft_error err;
    (void)state;
    make(&p);
    const char *dir = test_path("plan");
    ASSERT_OK(dir_create(dir, &err));
    ASSERT_OK(plan_write(&p, dir, &err));
    ASSERT_OK(plan_load(&again, dir, &err));
    assert_int_equal(again.n_parts, 2);
    assert_int_equal(again.n_pieces, 3);
    assert_memory_equal(again.pieces, p.pieces, 3 * sizeof *p.pieces);
    assert_memory_equal(again.parts, p.parts, 2 * sizeof *p.parts);
    assert_true(again.manifest.groups[0].weight == 0.1);
    assert_int_equal(again.manifest.groups[0].limit, 50);
    plan_free(&again);
    plan_free(&p);
}

/* Makes a plan, changes it, and says whether the key of its last part is another one. */
#define KEY_CHANGES(change)                                                                        \
    do {                                                                                           \
        struct plan a, b;                                                                          \
        make(&a);                                                                                  \
        make(&b);                                                                                  \
        struct plan *p = &b;                                                                       \
        change;                                                                                    \
        b.n_parts = 1;                                                                             \
        ASSERT_OK(plan_close_part(&b, &err));                                                      \
        assert_false(hash128_eq(a.parts[1].key, b.parts[1].key));                                  \
        plan_free(&a);                                                                             \
        plan_free(&b);                                                                             \
    } while (0)

static void a_key_covers_everything_that_decides_a_part(void **state)
{
    ft_error err;
    (void)state;
    KEY_CHANGES(p->pieces[1].piece.hash.lo++);
    KEY_CHANGES(p->pieces[2].piece.hash.hi++);
    KEY_CHANGES(p->pieces[1].piece.row++);
    KEY_CHANGES(p->pieces[1].piece.line++);
    KEY_CHANGES(p->pieces[1].piece.form = JSONL_ARRAY);
    KEY_CHANGES(p->tool_hash.lo++);
    KEY_CHANGES(p->manifest.tool = "other");
    KEY_CHANGES(p->manifest.chat_template = "other");
    KEY_CHANGES(p->manifest.template_source = "other");
    KEY_CHANGES(p->manifest.template_hash.lo++);
    KEY_CHANGES(p->manifest.tokenizer_fingerprint.lo++);
    KEY_CHANGES(p->manifest.options.max_length++);
    KEY_CHANGES(p->manifest.options.too_long = TOO_LONG_SPLIT);
    KEY_CHANGES(p->manifest.options.seed++);
    KEY_CHANGES(p->manifest.groups[0].weight = 0.2);
    KEY_CHANGES(p->manifest.sources[1].use = SOURCE_BOTH);
}

/* A change of the first file's end leaves the key of the part before it alone, and so does a name.
 */
static void a_key_covers_nothing_else(void **state)
{
    struct plan a, b;
    ft_error err;
    (void)state;
    make(&a);
    make(&b);
    b.manifest.sources[0].path = "elsewhere";
    b.manifest.groups[0].name = "renamed";
    b.pieces[1].piece.hash.lo++;
    b.n_parts = 0;
    b.n_pieces = 1;
    ASSERT_OK(plan_close_part(&b, &err));
    assert_true(hash128_eq(a.parts[0].key, b.parts[0].key));
    plan_free(&a);
    plan_free(&b);
}

static void expect_damage(const char *from, const char *to, const char *message)
{
    struct plan p;
    struct arena a = {0};
    struct buf text = {0};
    str file;
    ft_error err;
    char hex[HASH_HEX_LEN + 1];
    make(&p);
    ASSERT_OK(dir_create(test_path("damage"), &err));
    ASSERT_OK(plan_write(&p, test_path("damage"), &err));
    plan_free(&p);
    ASSERT_OK(file_read_all(&file, &a, test_path("damage/plan.json"), 1 << 20, &err));
    char *at = strstr((char *)(uintptr_t)file.ptr, from);
    char *end = strstr((char *)(uintptr_t)file.ptr, "\"checksum\"");
    assert_true(at != NULL && end != NULL);
    buf_append(&text, file.ptr, (size_t)(at - file.ptr));
    buf_cstr(&text, to);
    at += strlen(from);
    buf_append(&text, at, (size_t)(end - at));
    hash128_hex(hex, hash128_of(text.data, text.len));
    buf_printf(&text, "\"checksum\": \"%s\"\n}\n", hex);
    ASSERT_FAILS(plan_parse(&p, "plan", buf_view(&text), &err), FT_EFORMAT, message);
    buf_free(&text);
    arena_destroy(&a);
}

static void a_plan_that_lies_is_refused(void **state)
{
    ft_error err;
    struct plan p;
    (void)state;
    expect_damage("\"from\": 120", "\"from\": 121", "the piece does not follow the one before");
    expect_damage("\"row\": 3", "\"row\": 4", "the piece does not follow the one before");
    expect_damage("\"source\": 1", "\"source\": 2", "the piece contradicts itself");
    expect_damage("\"form\": \"lines\"", "\"form\": \"unknown\"", "the piece contradicts itself");
    expect_damage("\"rows\": 2, \"form\"", "\"rows\": 3, \"form\"",
                  "the pieces of sources[1] do not add up to it");
    expect_damage("\"weight\": 0.1", "\"weight\": 0", "\"weight\" is out of range");
    expect_damage("\"group\": 0", "\"group\": 1", "there is no group 1");
    expect_damage("\"version\": 1", "\"version\": 2", "this program reads version 1");
    ASSERT_FAILS(plan_parse(&p, "plan", STR("{}"), &err), FT_EFORMAT, "plan: \"format\"");
    ASSERT_FAILS(plan_load(&p, test_path("."), &err), FT_EFORMAT, "there is no plan.json");
}

static void rows_of_a_part_are_24_bytes(void **state)
{
    struct buf b = {0};
    struct part_row row = {{1, UINT64_MAX}, 77};
    (void)state;
    part_put_row(&b, &(struct part_row){{5, 6}, 7});
    part_put_row(&b, &row);
    assert_int_equal(b.len, 2 * PART_ROW_BYTES);
    struct part_row again = part_row_at(b.data, 1);
    assert_memory_equal(&again, &row, sizeof row);
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_reads_back_as_it_was_written),
        cmocka_unit_test(a_key_covers_everything_that_decides_a_part),
        cmocka_unit_test(a_key_covers_nothing_else),
        cmocka_unit_test(a_plan_that_lies_is_refused),
        cmocka_unit_test(rows_of_a_part_are_24_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
