/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/numeric.h"

#include <math.h>
#include <stdlib.h>

#include "common/arena.h"
#include "common/half.h"
#include "common/rng.h"

/* Everything handed to tests lives until the program ends. */
static struct arena kept;

static void free_kept(void)
{
    arena_destroy(&kept);
}

static void *keep(int64_t n, size_t size)
{
    if (kept.used == 0)
        atexit(free_kept);
    void *p = arena_alloc(&kept, (size_t)n, size);
    FT_ASSERT(p != NULL);
    return p;
}

float *zeros_f32(int64_t n)
{
    return keep(n, sizeof(float));
}

double *zeros_f64(int64_t n)
{
    return keep(n, sizeof(double));
}

void fill_random(float *x, int64_t n, uint64_t key, double scale)
{
    for (int64_t i = 0; i < n; i++) {
        double u = 1 - rng_unit(key, 0, (uint64_t)i), v = rng_unit(key, 1, (uint64_t)i);
        x[i] = (float)(scale * sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
    }
}

float *random_f32(int64_t n, uint64_t key, double scale)
{
    float *x = zeros_f32(n);
    fill_random(x, n, key, scale);
    return x;
}

static struct nf4_matrix quantized(const float *x, int64_t rows, int64_t cols)
{
    int64_t n = rows * cols, blocks = nf4_blocks(n);
    uint8_t *codes = keep((n + 1) / 2, 1), *absmax_q = keep(blocks, 1);
    float *absmax = zeros_f32(blocks), *absmax2 = zeros_f32(nf4_blocks2(n));
    struct nf4_matrix m = {.rows = rows,
                           .cols = cols,
                           .codes = codes,
                           .absmax = absmax_q,
                           .absmax2 = absmax2,
                           .map = (const float *)(const void *)nf4_map_bits};
    nf4_quantize(codes, absmax, x, n);
    nf4_quantize_absmax(absmax_q, absmax2, &m.offset, absmax, blocks);
    return m;
}

/* Random bytes with the half-precision scales of every block replaced by small numbers. */
static const void *random_blocks(enum dtype type, int64_t n, uint64_t key)
{
    static const size_t scale_at[DTYPES][2] = {
        [DT_Q4_1] = {0, 2}, [DT_Q5_1] = {0, 2}, [DT_Q4_K] = {0, 2}, [DT_Q6_K] = {208, 208}};
    size_t bytes, block = dtype_block_bytes(type);
    FT_ASSERT(dtype_bytes(type, n, &bytes));
    uint8_t *data = keep((int64_t)bytes, 1);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)rng_u64(key, 2, i);
    for (size_t b = 0; b < bytes; b += block)
        for (int s = 0; s < 2; s++) {
            uint16_t scale = f32_to_f16((float)(rng_unit(key, 3, b) * 0.02));
            memcpy(data + b + scale_at[type][s], &scale, sizeof scale);
        }
    return data;
}

struct weight random_weight(enum dtype type, int64_t rows, int64_t cols, uint64_t key)
{
    struct weight w = {.dtype = type, .rows = rows, .cols = cols, .name = dtype_name(type)};
    int64_t n = rows * cols;
    float *x = random_f32(n, key, 0.1);
    uint16_t *half = keep(n, sizeof *half);
    for (int64_t i = 0; i < n; i++)
        half[i] = type == DT_BF16 ? f32_to_bf16(x[i]) : f32_to_f16(x[i]);
    if (type == DT_NF4)
        w.nf4 = quantized(x, rows, cols);
    else if (type == DT_F32)
        w.data = x;
    else if (type == DT_F16 || type == DT_BF16)
        w.data = half;
    else
        w.data = random_blocks(type, n, key);
    return w;
}

float *weight_values(const struct weight *w)
{
    float *x = zeros_f32(w->rows * w->cols);
    if (w->dtype == DT_NF4)
        nf4_decode(&w->nf4, 0, w->rows * w->cols, x);
    else
        dtype_decode(w->dtype, w->data, w->rows * w->cols, x);
    return x;
}

double relative_error(const float *x, const double *reference, int64_t n)
{
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = (double)x[i] - reference[i];
        difference += d * d;
        norm += reference[i] * reference[i];
    }
    return norm > 0 ? sqrt(difference / norm) : sqrt(difference);
}

double max_relative_error(const float *x, const double *reference, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)x[i] - reference[i]);
        if (d > 0)
            most = fmax(most, d / fabs(reference[i]));
    }
    return most;
}

void central_differences(double *dst, const float *x, int64_t n,
                         double (*loss)(const void *ctx, const double *x), const void *ctx)
{
    double *at = zeros_f64(n);
    for (int64_t i = 0; i < n; i++)
        at[i] = (double)x[i];
    for (int64_t i = 0; i < n; i++) {
        double centre = at[i], step = 1e-5 * fmax(1, fabs(centre));
        at[i] = centre + step;
        double up = loss(ctx, at), step_up = at[i] - centre;
        at[i] = centre - step;
        double down = loss(ctx, at);
        dst[i] = (up - down) / (step_up + (centre - at[i]));
        at[i] = centre;
    }
}

struct backend *open_cpu(int n_threads, enum matmul_kind matmul)
{
    struct backend *be;
    ft_error err;
    struct backend_options o = {.n_threads = n_threads, .matmul = matmul};
    ASSERT_OK(backend_open(&be, "cpu", &o, &err));
    return be;
}

void sync_ok(struct backend *be)
{
    ft_error err;
    ASSERT_OK(backend_sync(be, &err));
}

void sync_fails(struct backend *be, const char *part)
{
    ft_error err = {0};
    if (backend_sync(be, &err) == FT_OK)
        fail_msg("succeeded; expected a failure with \"%s\"", part);
    if (strstr(err.text, part) == NULL)
        fail_msg("message \"%s\" does not contain \"%s\"", err.text, part);
}

static int64_t total(const struct expected *parts, size_t n)
{
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += parts[i].n;
    return sum;
}

static void check_values(const float *out, const struct expected *parts, size_t n,
                         const char *config)
{
    for (size_t i = 0; i < n; i++, out += parts[i - 1].n) {
        double error = relative_error(out, parts[i].values, parts[i].n);
        if (!(error <= parts[i].tolerance))
            fail_msg("%s (%s): relative error %.3g, allowed %.3g", parts[i].name, config, error,
                     parts[i].tolerance);
    }
}

static void check_bits(const float *out, const float *first, int64_t n, const char *config)
{
    if (memcmp(out, first, (size_t)n * sizeof *out) != 0)
        fail_msg("%s: result bits differ", config);
}

void check_op(void (*fn)(struct backend *be, const void *ctx, float *out), const void *ctx,
              const struct expected *parts, size_t n_parts, bool exact)
{
    static const int threads[] = {1, 4};
    int64_t n = total(parts, n_parts);
    float *out = zeros_f32(n), *one_thread = zeros_f32(n);
    float *exact_first[2] = {NULL, NULL};
    for (int tier = 0; tier < CPU_TIERS; tier++)
        for (int matmul = MATMUL_FAST; matmul <= MATMUL_REFERENCE; matmul++)
            for (size_t t = 0; t < ARRAY_LEN(threads); t++) {
                char config[96];
                cpu_tier_limit((enum cpu_tier)tier);
                snprintf(config, sizeof config, "%s, %s product, %d threads",
                         cpu_tier_name(cpu_tier()), matmul == MATMUL_FAST ? "fast" : "reference",
                         threads[t]);
                struct backend *be = open_cpu(threads[t], (enum matmul_kind)matmul);
                fn(be, ctx, out);
                sync_ok(be);
                backend_close(be);
                check_values(out, parts, n_parts, config);
                if (t == 0)
                    memcpy(one_thread, out, (size_t)n * sizeof *out);
                check_bits(out, one_thread, n, config);
                if (exact || matmul == MATMUL_REFERENCE) {
                    if (exact_first[matmul] == NULL) {
                        exact_first[matmul] = zeros_f32(n);
                        memcpy(exact_first[matmul], out, (size_t)n * sizeof *out);
                    }
                    check_bits(out, exact_first[matmul], n, config);
                }
            }
    cpu_tier_limit(CPU_TIERS);
}
