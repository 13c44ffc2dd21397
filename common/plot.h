/* SPDX-License-Identifier: Apache-2.0
 * Small self-contained SVG pictures (light and dark background safe) and terminal histograms. */
#ifndef COMMON_PLOT_H
#define COMMON_PLOT_H

#include "common/buf.h"

struct plot_series {
    const char *name;
    const double *x, *y;
    size_t n;
    bool markers; /* dots at the points, for sparse series */
};

/* Lines over common axes with ticks, legend and the last value of each series. */
void plot_lines_svg(struct buf *out, const char *title, const char *x_label, const char *y_label,
                    const struct plot_series *series, size_t n_series);

struct plot_bar {
    double from, to; /* interval on the x axis, [from, to) */
    double count;
};
void plot_histogram_svg(struct buf *out, const char *title, const char *x_label,
                        const char *y_label, const struct plot_bar *bars, size_t n_bars);
/* One text line per bar, `width` columns for the longest. */
void plot_histogram_text(struct buf *out, const struct plot_bar *bars, size_t n_bars, int width);

#endif
