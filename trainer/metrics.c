/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/metrics.h"

#include <inttypes.h>
#include <math.h>

#include "common/file.h"
#include "common/mem.h"
#include "common/plot.h"

/* The picture shows at most this many points of the training loss, each the mean of its interval.
 */
enum { MAX_POINTS = 1000, MIN_REACH = 3 };

static ft_status series_add(struct metrics_series *s, double x, double y, ft_error *err)
{
    if (s->n == s->cap) {
        size_t cap = s->cap * 2 + 256;
        double *grown_x = mem_realloc(s->x, cap, sizeof *s->x);
        if (grown_x != NULL)
            s->x = grown_x;
        double *grown_y = mem_realloc(s->y, cap, sizeof *s->y);
        if (grown_y != NULL)
            s->y = grown_y;
        if (grown_x == NULL || grown_y == NULL)
            return ft_fail_memory(err, cap * sizeof *s->x, "the loss history");
        s->cap = cap;
    }
    s->x[s->n] = x;
    s->y[s->n++] = y;
    return FT_OK;
}

static void series_free(struct metrics_series *s)
{
    mem_free(s->x);
    mem_free(s->y);
    *s = (struct metrics_series){0};
}

struct history {
    struct metrics *metrics;
    int64_t keep_step, keep_eval_step;
};

static ft_status keep_line(bool *keep, void *ctx, const json *line, ft_error *err)
{
    struct history *h = ctx;
    struct metrics *m = h->metrics;
    const json *eval_loss = json_get(line, "eval_loss");
    int64_t step;
    double loss;
    *keep = json_i64(json_get(line, "step"), &step) &&
            step <= (eval_loss != NULL ? h->keep_eval_step : h->keep_step);
    if (*keep && json_f64(eval_loss, &loss))
        return series_add(&m->eval, (double)step, loss, err);
    if (*keep && json_f64(json_get(line, "loss"), &loss))
        return series_add(&m->train, (double)step, loss, err);
    return FT_OK;
}

ft_status metrics_open(struct metrics *out, const char *path, int64_t keep_step,
                       int64_t keep_eval_step, ft_error *err)
{
    struct history h = {out, keep_step, keep_eval_step};
    *out = (struct metrics){0};
    return step_log_open(&out->log, path, keep_step < 0 ? NULL : keep_line, &h, err);
}

void metrics_close(struct metrics *m)
{
    step_log_close(&m->log);
    series_free(&m->train);
    series_free(&m->eval);
}

void metrics_number(struct buf *b, double v)
{
    if (isfinite(v))
        buf_printf(b, "%.9g", v);
    else
        buf_cstr(b, "null");
}

static void field(struct buf *b, const char *name, double v)
{
    buf_printf(b, ", \"%s\": ", name);
    metrics_number(b, v);
}

ft_status metrics_step(struct metrics *m, const struct step_record *r, ft_error *err)
{
    struct buf b = {0};
    buf_printf(&b, "{\"step\": %" PRId64, r->step);
    field(&b, "epoch", r->epoch);
    field(&b, "loss", r->trained_tokens > 0 ? r->loss : (double)NAN);
    field(&b, "lr", r->lr);
    field(&b, "grad_norm", r->grad_norm);
    buf_printf(&b, ", \"tokens\": %" PRId64 ", \"trained_tokens\": %" PRId64, r->tokens,
               r->trained_tokens);
    field(&b, "tokens_per_s", (double)r->tokens / r->seconds);
    field(&b, "seconds", r->seconds);
    buf_printf(&b, ", \"memory\": %" PRIu64 "}", mem_peak_rss());
    ft_status st = step_log_append(&m->log, &b, err);
    buf_free(&b);
    if (st == FT_OK && r->trained_tokens > 0)
        st = series_add(&m->train, (double)r->step, r->loss, err);
    return st;
}

ft_status metrics_eval(struct metrics *m, int64_t step, double loss, int64_t n_tokens,
                       double seconds, ft_error *err)
{
    struct buf b = {0};
    buf_printf(&b, "{\"step\": %" PRId64, step);
    field(&b, "eval_loss", loss);
    buf_printf(&b, ", \"eval_trained_tokens\": %" PRId64, n_tokens);
    field(&b, "eval_seconds", seconds);
    buf_byte(&b, '}');
    ft_status st = step_log_append(&m->log, &b, err);
    buf_free(&b);
    return st == FT_OK ? series_add(&m->eval, (double)step, loss, err) : st;
}

ft_status metrics_sync(struct metrics *m, ft_error *err)
{
    return step_log_sync(&m->log, err);
}

/* --- the picture ----------------------------------------------------------------------------- */

/* Means over at most MAX_POINTS intervals of equal numbers of points. */
static ft_status thin(struct metrics_series *out, const struct metrics_series *s, ft_error *err)
{
    size_t per_point = (s->n + MAX_POINTS - 1) / MAX_POINTS;
    for (size_t from = 0; from < s->n; from += per_point) {
        size_t to = FT_MIN(from + per_point, s->n);
        double x = 0, y = 0;
        for (size_t i = from; i < to; i++) {
            x += s->x[i];
            y += s->y[i];
        }
        FT_TRY(series_add(out, x / (double)(to - from), y / (double)(to - from), err));
    }
    return FT_OK;
}

/* Centred moving average over about a twentieth of the points. At both ends the window is cut, not
 * shrunk around its centre: the line must not end on the last raw point. */
static ft_status smooth(struct metrics_series *out, const struct metrics_series *s, ft_error *err)
{
    size_t reach = FT_MAX(s->n / 40, (size_t)MIN_REACH);
    for (size_t i = 0; i < s->n; i++) {
        size_t from = i > reach ? i - reach : 0, to = FT_MIN(i + reach + 1, s->n);
        double y = 0;
        for (size_t k = from; k < to; k++)
            y += s->y[k];
        FT_TRY(series_add(out, s->x[i], y / (double)(to - from), err));
    }
    return FT_OK;
}

ft_status metrics_draw(const struct metrics *m, const char *path, ft_error *err)
{
    struct metrics_series raw = {0}, smoothed = {0};
    struct buf svg = {0};
    ft_status st;
    FT_GOTO(thin(&raw, &m->train, err));
    FT_GOTO(smooth(&smoothed, &raw, err));
    const struct plot_series all[] = {
        {"training", raw.x, raw.y, raw.n, false},
        {"training, smoothed", smoothed.x, smoothed.y, smoothed.n, false},
        {"evaluation", m->eval.x, m->eval.y, m->eval.n, true},
    };
    plot_lines_svg(&svg, "Loss per trained token", "step", "loss", all, ARRAY_LEN(all));
    FT_GOTO(buf_status(&svg, "the loss picture", err));
    FT_GOTO(file_publish(path, svg.data, svg.len, err));
out:
    buf_free(&svg);
    series_free(&raw);
    series_free(&smoothed);
    return st;
}
