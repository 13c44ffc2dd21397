/* SPDX-License-Identifier: Apache-2.0
 * The parts of ftprep export: merging, the GGUF form of adapters, tokenizer files, Modelfiles. */
#include <math.h>
#include <stdlib.h>

#include "common/cpu.h"
#include "common/file.h"
#include "formats/chat_template.h"
#include "formats/gguf.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "formats/tok/tok_export.h"
#include "tests/support/check.h"
#include "tests/support/tiny_model.h"
#include "tools/export_merged.h"
#include "tools/gguf_lora.h"
#include "tools/merge.h"
#include "tools/modelfile.h"

/* --- merging --------------------------------------------------------------------------------- */

enum { ROWS = 5, COLS = 2051, RANK = 3 }; /* more than two column blocks, the last one short */

static void fill(float *x, int64_t n, int seed)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)((i * 7919 + seed) % 1000 - 500) / 300;
}

static void merging_adds_the_scaled_product(void **state)
{
    (void)state;
    static float w[ROWS * COLS], merged[ROWS * COLS], a[RANK * COLS], b[ROWS * RANK];
    struct merge_pair p = {a, b, RANK, 0.75};
    fill(w, ROWS * COLS, 1);
    fill(a, RANK * COLS, 2);
    fill(b, ROWS * RANK, 3);
    memcpy(merged, w, sizeof w);
    merge_rows(merged, 0, ROWS, COLS, &p);
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < COLS; j++) {
            double sum = 0;
            for (int r = 0; r < RANK; r++)
                sum += (double)b[i * RANK + r] * (double)a[r * COLS + j];
            assert_true(merged[i * COLS + j] == (float)((double)w[i * COLS + j] + 0.75 * sum));
        }
    }
}

static void merging_rows_in_pieces_gives_the_same_bits(void **state)
{
    (void)state;
    static float whole[ROWS * COLS], pieces[ROWS * COLS], a[RANK * COLS], b[ROWS * RANK];
    struct merge_pair p = {a, b, RANK, 2};
    fill(whole, ROWS * COLS, 4);
    fill(a, RANK * COLS, 5);
    fill(b, ROWS * RANK, 6);
    memcpy(pieces, whole, sizeof whole);
    merge_rows(whole, 0, ROWS, COLS, &p);
    merge_rows(pieces + 3 * COLS, 3, ROWS, COLS, &p);
    merge_rows(pieces, 0, 3, COLS, &p);
    assert_memory_equal(whole, pieces, sizeof whole);
}

static void every_cpu_tier_merges_to_the_same_bits(void **state)
{
    (void)state;
    static float portable[ROWS * COLS], w[ROWS * COLS], a[RANK * COLS], b[ROWS * RANK];
    struct merge_pair p = {a, b, RANK, 0.3};
    fill(a, RANK * COLS, 7);
    fill(b, ROWS * RANK, 8);
    for (int tier = CPU_PORTABLE; tier < CPU_TIERS; tier++) {
        float *out = tier == CPU_PORTABLE ? portable : w;
        cpu_tier_limit((enum cpu_tier)tier);
        fill(out, ROWS * COLS, 9);
        merge_rows(out, 0, ROWS, COLS, &p);
        assert_memory_equal(out, portable, sizeof portable);
    }
}

/* --- shards ---------------------------------------------------------------------------------- */

static struct export_merged_result write_sharded(const char *name, const struct export_base *base,
                                                 uint64_t shard_bytes)
{
    ft_error err;
    struct export_merged_result r;
    struct export_merged m = {
        .base = base, .dtype = DT_F32, .shard_bytes = shard_bytes, .dir = test_path(name)};
    ASSERT_OK(pool_create(&m.pool, 2, &err));
    ASSERT_OK(dir_remove(m.dir, &err));
    ASSERT_OK(dir_create(m.dir, &err));
    ASSERT_OK(export_merged_write(&r, &m, &err));
    pool_destroy(m.pool);
    return r;
}

static void shards_hold_every_tensor_once_and_stay_under_the_limit(void **state)
{
    (void)state;
    ft_error err;
    struct model_config c;
    struct export_base *base;
    struct safetensors *whole, *sharded;
    const uint64_t limit = 40000; /* the embedding alone is larger */
    ASSERT_OK(tiny_model_config(&c, &err));
    ASSERT_OK(tiny_model_write(test_path("tiny"), &c, &err));
    ASSERT_OK(export_base_open(&base, test_path("tiny"), &err));
    assert_int_equal(write_sharded("whole", base, 1 << 30).n_files, 1);
    struct export_merged_result r = write_sharded("sharded", base, limit);
    assert_true(r.n_files > 5);
    ASSERT_OK(safetensors_open(&whole, test_path("whole/model.safetensors"), &err));
    ASSERT_OK(safetensors_open(&sharded, test_path("sharded/model.safetensors.index.json"), &err));
    assert_int_equal(safetensors_count(sharded), r.n_tensors);
    assert_int_equal(safetensors_count(whole), r.n_tensors);
    uint64_t used[64] = {0}, n_in[64] = {0};
    assert_true(r.n_files <= 64);
    for (size_t i = 0; i < (size_t)r.n_tensors; i++) {
        const struct safetensors_tensor *a = safetensors_at(whole, i),
                                        *b = safetensors_at(sharded, i);
        assert_string_equal(a->name, b->name);
        assert_int_equal(a->bytes, b->bytes);
        assert_memory_equal(a->data, b->data, a->bytes);
        used[b->shard] += b->bytes;
        n_in[b->shard]++;
    }
    for (int64_t s = 0; s < r.n_files; s++)
        assert_true(n_in[s] == 1 || (n_in[s] > 1 && used[s] <= limit));
    safetensors_close(whole);
    safetensors_close(sharded);
    export_base_close(base);
}

/* --- GGUF ------------------------------------------------------------------------------------ */

static struct model_config tiny(const char *architecture)
{
    struct model_config c = {.hidden = 32,
                             .n_layers = 2,
                             .n_heads = 4,
                             .n_kv_heads = 2,
                             .head_dim = 8,
                             .intermediate = 48,
                             .vocab = 64};
    snprintf(c.architecture, sizeof c.architecture, "%s", architecture);
    return c;
}

static struct gguf *convert(const char *golden, const char *architecture, enum dtype dtype)
{
    ft_error err;
    struct adapter *ad;
    struct gguf *g;
    struct gguf_writer file = {0};
    struct model_config c = tiny(architecture);
    const char *path = test_path("lora.gguf");
    ASSERT_OK(adapter_open(&ad, golden, &err));
    ASSERT_OK(gguf_lora_write(&file, path, ad, &c, dtype, &err));
    ASSERT_OK(gguf_write_commit(&file, &err));
    adapter_close(ad);
    ASSERT_OK(gguf_open(&g, path, &err));
    return g;
}

/* Element i of a tensor of tests/golden/adapter. */
static float golden_value(int64_t i, int64_t layer, bool is_b)
{
    return (float)((7 * i) % 31 - 15) / 16 + (is_b ? (float)layer : 0);
}

static void gguf_adapters_follow_the_convention(void **state)
{
    (void)state;
    ft_error err;
    str s;
    double alpha;
    struct gguf *g = convert("tests/golden/adapter/plain", "llama", DT_F32);
    ASSERT_OK(gguf_need_str(&s, g, "general.type", &err));
    assert_true(str_is(s, "adapter"));
    ASSERT_OK(gguf_need_str(&s, g, "adapter.type", &err));
    assert_true(str_is(s, "lora"));
    ASSERT_OK(gguf_need_str(&s, g, "general.architecture", &err));
    assert_true(str_is(s, "llama"));
    ASSERT_OK(gguf_opt_f64(&alpha, g, "adapter.lora.alpha", 0, &err));
    assert_true(alpha == 8);
    assert_int_equal(gguf_tensors(g), 8);
    const struct gguf_tensor *a = gguf_find_tensor(g, STR("blk.1.attn_v.weight.lora_a"));
    const struct gguf_tensor *b = gguf_find_tensor(g, STR("blk.1.attn_v.weight.lora_b"));
    assert_true(a->shape[0] == 32 && a->shape[1] == 4);
    assert_true(b->shape[0] == 4 && b->shape[1] == 16);
    for (int64_t i = 0; i < 4 * 16; i++) {
        float v;
        memcpy(&v, b->data + 4 * i, sizeof v);
        assert_true(v == golden_value(i, 1, true));
    }
    gguf_close(g);
}

/* Row 2 i + j of a head is row j d/2 + i of the original. */
static void rows_of_q_are_reordered_for_llama_and_not_for_qwen2(void **state)
{
    (void)state;
    static const char *const architectures[] = {"llama", "mistral", "qwen2"};
    for (size_t arch = 0; arch < ARRAY_LEN(architectures); arch++) {
        struct gguf *g = convert("tests/golden/adapter/plain", architectures[arch], DT_F32);
        const struct gguf_tensor *b = gguf_find_tensor(g, STR("blk.0.attn_q.weight.lora_b"));
        for (int64_t row = 0; row < 32; row++) {
            int64_t head = row / 8, i = row % 8 / 2, j = row % 2;
            int64_t from = arch == 2 ? row : head * 8 + j * 4 + i;
            for (int64_t r = 0; r < 4; r++) {
                float v;
                memcpy(&v, b->data + 4 * (row * 4 + r), sizeof v);
                assert_true(v == golden_value(from * 4 + r, 0, true));
            }
        }
        gguf_close(g);
    }
}

static void rank_stabilised_scaling_is_folded_into_alpha(void **state)
{
    (void)state;
    ft_error err;
    double alpha;
    struct gguf *g = convert("tests/golden/adapter/rslora-bf16", "llama", DT_BF16);
    ASSERT_OK(gguf_opt_f64(&alpha, g, "adapter.lora.alpha", 0, &err));
    assert_true(fabs(alpha / 3 - 6 / sqrt(3)) < 1e-6);
    assert_int_equal(gguf_tensors(g), 28);
    assert_int_equal(gguf_tensor(g, 0)->dtype, DT_BF16);
    gguf_close(g);
}

/* --- tokenizer ------------------------------------------------------------------------------- */

static void a_tokenizer_written_as_json_is_the_same_tokenizer(void **state)
{
    (void)state;
    ft_error err;
    struct tok *t, *again;
    struct buf text = {0};
    const char *path = test_path("tokenizer.json");
    ASSERT_OK(tok_open(&t, "data-samples/tokenizer-tiny.json", &err));
    ASSERT_OK(tok_to_json(&text, t, &err));
    ASSERT_OK(file_publish(path, text.data, text.len, &err));
    ASSERT_OK(tok_open(&again, path, &err));
    hash128 a = tok_fingerprint(t), b = tok_fingerprint(again);
    assert_true(a.lo == b.lo && a.hi == b.hi);
    tok_close(t);
    tok_close(again);
    buf_free(&text);
}

/* A directory with the tiny tokenizer and this tokenizer_config.json. */
static struct tok *open_with_config(const char *config)
{
    ft_error err;
    struct arena a = {0};
    struct tok *t;
    str text;
    const char *dir = test_path("tok");
    ASSERT_OK(dir_create(dir, &err));
    ASSERT_OK(file_read_all(&text, &a, "data-samples/tokenizer-tiny.json", 1 << 20, &err));
    ASSERT_OK(file_publish(path_join(&a, dir, "tokenizer.json"), text.ptr, text.len, &err));
    ASSERT_OK(
        file_publish(path_join(&a, dir, "tokenizer_config.json"), config, strlen(config), &err));
    ASSERT_OK(tok_open(&t, dir, &err));
    arena_destroy(&a);
    return t;
}

static void the_tokenizer_config_holds_what_was_read(void **state)
{
    (void)state;
    ft_error err;
    struct buf text = {0};
    struct json_doc *doc;
    str s;
    int64_t longest;
    struct tok *t =
        open_with_config("{\"eos_token\": \"<|im_end|>\", \"chat_template\": \"a\\n\"}");
    tok_to_config_json(&text, t, 4096);
    ASSERT_OK(json_parse(&doc, "config", buf_view(&text), JSON_STRICT, &err));
    ASSERT_OK(json_need_str(&s, json_root(doc), "chat_template", &err));
    assert_true(str_is(s, "a\n"));
    ASSERT_OK(json_need_str(&s, json_root(doc), "eos_token", &err));
    assert_true(str_is(s, "<|im_end|>"));
    assert_null(json_get(json_root(doc), "bos_token"));
    ASSERT_OK(json_need_i64(&longest, json_root(doc), "model_max_length", 4096, 4096, &err));
    json_close(doc);
    tok_close(t);
    buf_free(&text);
}

/* --- Modelfile ------------------------------------------------------------------------------- */

static struct tok *open_with_template(const char *jinja)
{
    struct buf config = {0};
    buf_cstr(&config, "{\"bos_token\": \"<|im_start|>\", \"chat_template\": ");
    json_write_str(&config, str_from(jinja));
    buf_cstr(&config, "}");
    buf_byte(&config, '\0');
    struct tok *t = open_with_config((const char *)config.data);
    buf_free(&config);
    return t;
}

static void the_modelfile_renders_what_the_chat_template_renders(void **state)
{
    (void)state;
    ft_error err;
    struct buf text = {0};
    bool has_template;
    struct tok *t = open_with_template(chat_smollm2_jinja);
    struct modelfile m = {.from = "base.gguf", .adapter = "lora.gguf", .tok = t};
    ASSERT_OK(modelfile_write(&text, &has_template, &m, &err));
    assert_true(has_template);
    buf_byte(&text, '\0');
    assert_string_equal(
        (const char *)text.data,
        "FROM base.gguf\n"
        "ADAPTER lora.gguf\n"
        "TEMPLATE \"\"\"{{ if not .System }}<|im_start|>system\n"
        "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "{{ end }}{{ range .Messages }}{{ if eq .Role \"system\" }}<|im_start|>system\n"
        "{{ .Content }}<|im_end|>\n"
        "{{ else if eq .Role \"user\" }}<|im_start|>user\n"
        "{{ .Content }}<|im_end|>\n"
        "<|im_start|>assistant\n"
        "{{ else if eq .Role \"assistant\" }}{{ .Content }}<|im_end|>\n"
        "{{ end }}{{ end }}\"\"\"\n"
        "PARAMETER stop \"<|im_end|>\"\n");
    tok_close(t);
    buf_free(&text);
}

static void an_unknown_chat_template_gives_a_modelfile_without_template(void **state)
{
    (void)state;
    ft_error err;
    struct buf text = {0};
    bool has_template = true;
    struct tok *t = open_with_template("{{ something }}");
    struct modelfile m = {.from = ".", .tok = t};
    ASSERT_OK(modelfile_write(&text, &has_template, &m, &err));
    assert_false(has_template);
    assert_true(str_is(buf_view(&text), "FROM .\n"));
    buf_clear(&text);
    m.tok = NULL;
    ASSERT_OK(modelfile_write(&text, &has_template, &m, &err));
    assert_false(has_template);
    tok_close(t);
    buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merging_adds_the_scaled_product),
        cmocka_unit_test(merging_rows_in_pieces_gives_the_same_bits),
        cmocka_unit_test(every_cpu_tier_merges_to_the_same_bits),
        cmocka_unit_test(shards_hold_every_tensor_once_and_stay_under_the_limit),
        cmocka_unit_test(gguf_adapters_follow_the_convention),
        cmocka_unit_test(rows_of_q_are_reordered_for_llama_and_not_for_qwen2),
        cmocka_unit_test(rank_stabilised_scaling_is_folded_into_alpha),
        cmocka_unit_test(a_tokenizer_written_as_json_is_the_same_tokenizer),
        cmocka_unit_test(the_tokenizer_config_holds_what_was_read),
        cmocka_unit_test(the_modelfile_renders_what_the_chat_template_renders),
        cmocka_unit_test(an_unknown_chat_template_gives_a_modelfile_without_template),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
