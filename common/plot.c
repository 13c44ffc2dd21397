/* SPDX-License-Identifier: Apache-2.0
 * Pictures have no background and use mid-tone colours only, so that they read on white and on
 * black pages alike, in viewers with and without style sheets. */
#include "common/plot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    WIDTH = 720,
    LEFT = 72,
    RIGHT = 24,
    TITLE = 34,
    LEGEND_ROW = 20,
    PLOT_HEIGHT = 300,
    BOTTOM = 52,
    CHAR_WIDTH = 7, /* of the 12 px font, on average and a little more */
};

#define INK "#7a808c" /* contrast of about 4 to 1 against white and against #0d1117 */

static const char *const palette[] = {"#3b82f6", "#e8710a", "#1f9d55",
                                      "#d9488b", "#8b6cef", "#b08900"};

/* --- axes ---------------------------------------------------------------------------------- */

struct axis {
    double min, max, step;
    double from, to; /* pixels of min and max */
};

/* Widens [lo, hi] to whole steps of 1, 2 or 5 times a power of ten. */
static struct axis axis_over(double lo, double hi, int max_ticks, double from, double to)
{
    if (!(lo < hi)) {
        double pad = fabs(lo) > 0 ? fabs(lo) / 2 : 1;
        lo -= pad;
        hi = lo + 2 * pad;
    }
    double raw = (hi - lo) / max_ticks, power = pow(10, floor(log10(raw))), rest = raw / power;
    double step = power * (rest <= 1 ? 1 : rest <= 2 ? 2 : rest <= 5 ? 5 : 10);
    return (struct axis){floor(lo / step) * step, ceil(hi / step) * step, step, from, to};
}

static double axis_pixel(const struct axis *a, double v)
{
    return a->from + (v - a->min) / (a->max - a->min) * (a->to - a->from);
}

static int axis_ticks(const struct axis *a)
{
    return (int)lround((a->max - a->min) / a->step);
}

/* As few digits as tell neighbouring ticks apart: "0.05", "250k", "1.5M". */
static void number_text(char dst[32], double v, double step)
{
    double unit = fabs(v) >= 1e9 ? 1e9 : fabs(v) >= 1e6 ? 1e6 : fabs(v) >= 1e4 ? 1e3 : 1;
    const char *suffix = unit >= 1e9 ? "G" : unit >= 1e6 ? "M" : unit >= 1e3 ? "k" : "";
    double digits = ceil(-log10(step / unit) - 1e-9);
    if (digits > 6)
        snprintf(dst, 32, "%.3g", v);
    else
        snprintf(dst, 32, "%.*f%s", (int)FT_MAX(digits, 0.0), fabs(v) < step / 2 ? 0.0 : v / unit,
                 suffix);
}

/* --- SVG ----------------------------------------------------------------------------------- */

static void xml_text(struct buf *out, const char *s)
{
    for (; *s != '\0'; s++) {
        if (*s == '<')
            buf_cstr(out, "&lt;");
        else if (*s == '>')
            buf_cstr(out, "&gt;");
        else if (*s == '&')
            buf_cstr(out, "&amp;");
        else
            buf_byte(out, (uint8_t)*s);
    }
}

static void text_at(struct buf *out, double x, double y, const char *attributes, const char *s)
{
    buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\"%s>", x, y, attributes);
    xml_text(out, s);
    buf_cstr(out, "</text>\n");
}

static void svg_begin(struct buf *out, const char *title, int height)
{
    buf_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
               "height=\"%d\" font-family=\"sans-serif\" font-size=\"12\" fill=\"" INK "\">\n",
               WIDTH, height, WIDTH, height);
    text_at(out, WIDTH / 2.0, 22, " text-anchor=\"middle\" font-size=\"15\" font-weight=\"bold\"",
            title);
}

static void draw_axes(struct buf *out, const struct axis *x, const struct axis *y,
                      const char *x_label, const char *y_label)
{
    char label[32];
    double middle = (y->from + y->to) / 2;
    for (int i = 0; i <= axis_ticks(y); i++) {
        double v = y->min + i * y->step, at = axis_pixel(y, v);
        buf_printf(out, "<path d=\"M%.1f %.1fH%.1f\" stroke=\"" INK "\" stroke-opacity=\"%s\"/>\n",
                   x->from, at, x->to, i == 0 ? "1" : "0.25");
        number_text(label, v, y->step);
        text_at(out, x->from - 8, at + 4, " text-anchor=\"end\"", label);
    }
    for (int i = 0; i <= axis_ticks(x); i++) {
        double v = x->min + i * x->step, at = axis_pixel(x, v);
        buf_printf(out, "<path d=\"M%.1f %.1fv5\" stroke=\"" INK "\"/>\n", at, y->from);
        number_text(label, v, x->step);
        text_at(out, at, y->from + 19, " text-anchor=\"middle\"", label);
    }
    text_at(out, (x->from + x->to) / 2, y->from + 40, " text-anchor=\"middle\"", x_label);
    buf_printf(out, "<g transform=\"translate(18 %.1f) rotate(-90)\">", middle);
    text_at(out, 0, 0, " text-anchor=\"middle\"", y_label);
    buf_cstr(out, "</g>\n");
}

/* --- lines --------------------------------------------------------------------------------- */

static bool finite_point(const struct plot_series *s, size_t i)
{
    return isfinite(s->x[i]) && isfinite(s->y[i]);
}

struct bounds {
    double x0, x1, y0, y1;
};

static struct bounds bounds_of(const struct plot_series *series, size_t n_series)
{
    struct bounds b = {INFINITY, -INFINITY, INFINITY, -INFINITY};
    for (size_t k = 0; k < n_series; k++)
        for (size_t i = 0; i < series[k].n; i++) {
            if (!finite_point(&series[k], i))
                continue;
            b.x0 = FT_MIN(b.x0, series[k].x[i]);
            b.x1 = FT_MAX(b.x1, series[k].x[i]);
            b.y0 = FT_MIN(b.y0, series[k].y[i]);
            b.y1 = FT_MAX(b.y1, series[k].y[i]);
        }
    return b.x0 > b.x1 ? (struct bounds){0, 1, 0, 1} : b;
}

/* One polyline. Long series put hundreds of points on one pixel column: the lowest and the highest
 * of each column draw the same picture at a bounded size. */
static void draw_line(struct buf *out, const struct plot_series *s, const struct axis *x,
                      const struct axis *y)
{
    const char *joint = "M";
    for (size_t i = 0; i < s->n;) {
        if (!finite_point(s, i)) {
            joint = "M"; /* a gap stays a gap */
            i++;
            continue;
        }
        size_t low = i, high = i, end = i;
        double column = floor(axis_pixel(x, s->x[i]));
        for (; end < s->n && finite_point(s, end) && floor(axis_pixel(x, s->x[end])) == column;
             end++) {
            low = s->y[end] < s->y[low] ? end : low;
            high = s->y[end] > s->y[high] ? end : high;
        }
        size_t points[] = {FT_MIN(low, high), FT_MAX(low, high)};
        for (size_t k = 0; k < (low == high ? 1 : 2); k++, joint = "L")
            buf_printf(out, "%s%.1f %.1f", joint, axis_pixel(x, s->x[points[k]]),
                       axis_pixel(y, s->y[points[k]]));
        i = end;
    }
}

static void draw_series(struct buf *out, const struct plot_series *s, const char *color,
                        const struct axis *x, const struct axis *y)
{
    buf_printf(out,
               "<path fill=\"none\" stroke=\"%s\" stroke-width=\"1.8\" "
               "stroke-linejoin=\"round\" d=\"",
               color);
    draw_line(out, s, x, y);
    buf_cstr(out, "\"/>\n");
    for (size_t i = 0; s->markers && i < s->n; i++)
        if (finite_point(s, i))
            buf_printf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"/>\n",
                       axis_pixel(x, s->x[i]), axis_pixel(y, s->y[i]), color);
}

/* Name and last finite value of each series, wrapped into rows. Returns the rows used; draws only
 * when out is not NULL, so that the same walk gives the height. */
static int draw_legend(struct buf *out, const struct plot_series *series, size_t n_series,
                       double step)
{
    int rows = n_series > 0;
    double at = LEFT;
    for (size_t k = 0; k < n_series; k++) {
        char value[32] = "";
        for (size_t i = series[k].n; i > 0 && value[0] == '\0'; i--)
            if (finite_point(&series[k], i - 1))
                number_text(value, series[k].y[i - 1], step / 100);
        double name = (double)(strlen(series[k].name) * CHAR_WIDTH);
        double width = 22 + name + (double)(strlen(value) * CHAR_WIDTH) + 24;
        if (at > LEFT && at + width > WIDTH - RIGHT) {
            rows++;
            at = LEFT;
        }
        if (out != NULL) {
            double y = TITLE + rows * LEGEND_ROW - 6;
            buf_printf(out, "<path d=\"M%.1f %.1fh16\" stroke=\"%s\" stroke-width=\"3\"/>\n", at,
                       y - 4, palette[k % ARRAY_LEN(palette)]);
            buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\">", at + 22, y);
            xml_text(out, series[k].name);
            buf_printf(out, " <tspan font-weight=\"bold\">%s</tspan></text>\n", value);
        }
        at += width;
    }
    return rows;
}

void plot_lines_svg(struct buf *out, const char *title, const char *x_label, const char *y_label,
                    const struct plot_series *series, size_t n_series)
{
    struct bounds b = bounds_of(series, n_series);
    double top = TITLE + draw_legend(NULL, series, n_series, 1) * LEGEND_ROW + 8;
    struct axis x = axis_over(b.x0, b.x1, 8, LEFT, WIDTH - RIGHT);
    struct axis y = axis_over(b.y0, b.y1, 6, top + PLOT_HEIGHT, top);
    svg_begin(out, title, (int)top + PLOT_HEIGHT + BOTTOM);
    draw_axes(out, &x, &y, x_label, y_label);
    draw_legend(out, series, n_series, y.step);
    for (size_t k = 0; k < n_series; k++)
        draw_series(out, &series[k], palette[k % ARRAY_LEN(palette)], &x, &y);
    buf_cstr(out, "</svg>\n");
}

/* --- histograms ---------------------------------------------------------------------------- */

static double highest_bar(const struct plot_bar *bars, size_t n_bars)
{
    double most = 0;
    for (size_t i = 0; i < n_bars; i++)
        most = FT_MAX(most, bars[i].count);
    return most;
}

void plot_histogram_svg(struct buf *out, const char *title, const char *x_label,
                        const char *y_label, const struct plot_bar *bars, size_t n_bars)
{
    const double top = TITLE + 8;
    double from = n_bars > 0 ? bars[0].from : 0, to = n_bars > 0 ? bars[n_bars - 1].to : 1;
    struct axis x = axis_over(from, to, 10, LEFT, WIDTH - RIGHT);
    struct axis y = axis_over(0, FT_MAX(highest_bar(bars, n_bars), 1), 6, top + PLOT_HEIGHT, top);
    svg_begin(out, title, (int)top + PLOT_HEIGHT + BOTTOM);
    draw_axes(out, &x, &y, x_label, y_label);
    for (size_t i = 0; i < n_bars; i++) {
        double left = axis_pixel(&x, bars[i].from), right = axis_pixel(&x, bars[i].to);
        double high = axis_pixel(&y, bars[i].count);
        buf_printf(out,
                   "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\" "
                   "fill-opacity=\"0.85\"/>\n",
                   left + 0.5, high, FT_MAX(right - left - 1, 0.5), y.from - high, palette[0]);
    }
    buf_cstr(out, "</svg>\n");
}

void plot_histogram_text(struct buf *out, const struct plot_bar *bars, size_t n_bars, int width)
{
    double most = highest_bar(bars, n_bars);
    int column = 1;
    for (size_t i = 0; i < n_bars; i++)
        column = FT_MAX(column, snprintf(NULL, 0, "%.6g", bars[i].to));
    for (size_t i = 0; i < n_bars; i++) {
        int length = most > 0 ? (int)ceil(bars[i].count / most * width) : 0;
        buf_printf(out, "%*.6g - %*.6g |", column, bars[i].from, column, bars[i].to);
        for (int k = 0; k < length; k++)
            buf_byte(out, '#');
        buf_printf(out, "%s%.15g\n", length > 0 ? " " : "", bars[i].count);
    }
}
