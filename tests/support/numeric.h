/* SPDX-License-Identifier: Apache-2.0
 * For tests of numeric code: reproducible random data, comparison with double-precision references,
 * central differences, and the run of one operation in every configuration of the CPU backend. */
#ifndef TESTS_SUPPORT_NUMERIC_H
#define TESTS_SUPPORT_NUMERIC_H

#include "common/cpu.h"
#include "tests/support/check.h"
#include "trainer/ops.h"

/* Standard normal values times scale, a pure function of key. */
void fill_random(float *x, int64_t n, uint64_t key, double scale);
/* Memory that lives until the test program ends. */
float *random_f32(int64_t n, uint64_t key, double scale);
float *zeros_f32(int64_t n);
double *zeros_f64(int64_t n);

/* A weight with random contents of this type (K formats and NF4 too), data on the heap as above;
 * and its values as the definitions in formats/ decode them. */
struct weight random_weight(enum dtype type, int64_t rows, int64_t cols, uint64_t key);
float *weight_values(const struct weight *w);

/* Frobenius norm of the difference over that of the reference. */
double relative_error(const float *x, const double *reference, int64_t n);
/* Largest |x - reference| / |reference|. */
double max_relative_error(const float *x, const double *reference, int64_t n);

/* dst[i] = d loss / d x[i] by central differences in double, step 1e-5 * max(1, |x|). */
void central_differences(double *dst, const float *x, int64_t n,
                         double (*loss)(const void *ctx, const double *x), const void *ctx);

/* One result of an operation and what it must be. */
struct expected {
    const char *name;
    int64_t n;
    const double *values;
    double tolerance; /* on relative_error */
};

/* Runs fn, which writes its results one after another into out, in every configuration: instruction
 * sets, matrix products, 1 and 4 threads. Asserts that results are within tolerance of `parts`,
 * equal to the bit between thread counts, and, with the reference product or `exact`, between
 * instruction sets. */
void check_op(void (*fn)(struct backend *be, const void *ctx, float *out), const void *ctx,
              const struct expected *parts, size_t n_parts, bool exact);

/* A backend that closes with the test; asserts that it opens. */
struct backend *open_cpu(int n_threads, enum matmul_kind matmul);
/* backend_sync must succeed. */
void sync_ok(struct backend *be);
/* backend_sync must fail with a message that contains part. */
void sync_fails(struct backend *be, const char *part);

#endif
