/* SPDX-License-Identifier: Apache-2.0 */
#include "common/plot.h"

#include <math.h>

#include "common/file.h"
#include "tests/support/check.h"

/* The text, NUL-terminated, also left in the test directory to be looked at. */
static const char *finished(struct buf *b, const char *name)
{
    ft_error err;
    ASSERT_OK(buf_status(b, "a picture", &err));
    ASSERT_OK(file_publish(test_path(name), b->data, b->len, &err));
    buf_byte(b, '\0');
    return (const char *)b->data;
}

static size_t count(const char *text, const char *part)
{
    size_t n = 0;
    for (; (text = strstr(text, part)) != NULL; text++)
        n++;
    return n;
}

static void lines_have_ticks_legend_and_last_values(void **state)
{
    double x[200], y[200], ex[] = {0, 100, 199}, ey[] = {2.9, 1.3, 0.71};
    struct buf b = {0};
    (void)state;
    for (int i = 0; i < 200; i++) {
        x[i] = i;
        y[i] = 3 * exp(-i / 80.0) + 0.15 * sin(i) + 0.25;
    }
    struct plot_series series[] = {{"train loss", x, y, 200, false},
                                   {"eval <loss>", ex, ey, 3, true}};
    plot_lines_svg(&b, "Loss & more", "step", "loss per token", series, 2);
    const char *svg = finished(&b, "lines.svg");
    assert_int_equal(count(svg, "<svg"), 1);
    assert_int_equal(count(svg, "</svg>"), 1);
    assert_non_null(strstr(svg, "Loss &amp; more"));
    assert_non_null(strstr(svg, "eval &lt;loss&gt; <tspan font-weight=\"bold\">0.710</tspan>"));
    assert_int_equal(count(svg, "<circle"), 3);
    assert_non_null(strstr(svg, ">200</text>"));
    buf_free(&b);
}

static void long_series_stay_small_and_keep_their_extremes(void **state)
{
    enum { N = 200000 };
    static double x[N], y[N];
    struct buf b = {0};
    (void)state;
    for (int i = 0; i < N; i++) {
        x[i] = i;
        y[i] = 1;
    }
    y[77777] = 9; /* one spike among many points of its pixel column */
    struct plot_series s = {"loss", x, y, N, false};
    plot_lines_svg(&b, "t", "x", "y", &s, 1);
    assert_true(b.len < 40000);
    const char *svg = finished(&b, "long.svg");
    assert_non_null(strstr(svg, " 92.0L")); /* 9 on an axis from 0 to 10 */
    buf_free(&b);
}

static void points_without_a_value_leave_a_gap(void **state)
{
    double x[] = {0, 1, 2, 3, 4}, y[] = {1, 2, NAN, INFINITY, 3};
    struct plot_series s = {"s", x, y, 5, false};
    struct buf b = {0};
    (void)state;
    plot_lines_svg(&b, "t", "x", "y", &s, 1);
    const char *svg = finished(&b, "gap.svg");
    assert_null(strstr(svg, "nan"));
    assert_null(strstr(svg, "inf"));
    const char *path = strstr(svg, "stroke-linejoin");
    assert_non_null(path);
    assert_int_equal(count(path, "M") - count(strstr(path, "/>"), "M"), 2);
    buf_free(&b);
}

static void empty_and_flat_series_still_give_a_picture(void **state)
{
    double one = 5;
    struct plot_series flat = {"flat", &one, &one, 1, true}, none = {"none", NULL, NULL, 0, false};
    struct buf b = {0};
    (void)state;
    plot_lines_svg(&b, "t", "x", "y", &flat, 1);
    plot_lines_svg(&b, "t", "x", "y", &none, 1);
    plot_lines_svg(&b, "t", "x", "y", NULL, 0);
    plot_histogram_svg(&b, "t", "x", "y", NULL, 0);
    const char *svg = finished(&b, "empty.svg");
    assert_int_equal(count(svg, "</svg>"), 4);
    assert_null(strstr(svg, "nan"));
    buf_free(&b);
}

static void histogram_has_one_bar_per_interval(void **state)
{
    struct plot_bar bars[] = {{0, 100, 12}, {100, 200, 30500}, {200, 300, 0}, {300, 400, 7000}};
    struct buf b = {0};
    (void)state;
    plot_histogram_svg(&b, "Lengths", "tokens", "samples", bars, 4);
    const char *svg = finished(&b, "histogram.svg");
    assert_int_equal(count(svg, "<rect"), 4);
    assert_non_null(strstr(svg, ">40k</text>"));
    buf_clear(&b);
    plot_histogram_text(&b, bars, 4, 10);
    assert_string_equal(finished(&b, "histogram.txt"), "  0 - 100 |# 12\n"
                                                       "100 - 200 |########## 30500\n"
                                                       "200 - 300 |0\n"
                                                       "300 - 400 |### 7000\n");
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_have_ticks_legend_and_last_values),
        cmocka_unit_test(long_series_stay_small_and_keep_their_extremes),
        cmocka_unit_test(points_without_a_value_leave_a_gap),
        cmocka_unit_test(empty_and_flat_series_still_give_a_picture),
        cmocka_unit_test(histogram_has_one_bar_per_interval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
