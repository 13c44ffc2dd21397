/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/lora.h"

#include <math.h>
#include <string.h>

#include "common/mem.h"
#include "common/rng.h"
#include "trainer/carve.h"

static bool is_target(const struct adapter_config *adapter, int kind)
{
    return adapter != NULL && adapter->target[kind];
}

static size_t targets_per_layer(const struct adapter_config *adapter)
{
    size_t n = 0;
    for (int k = 0; k < LINEAR_KINDS; k++)
        n += is_target(adapter, k);
    return n;
}

/* Appends one tensor; with a NULL list only the floats are counted. */
static void add_tensor(struct adapter_layout *l, struct param_tensor t)
{
    struct carve c = {.n = l->n};
    t.offset = l->n;
    carve(&c, "adapter", t.rows, t.cols);
    l->n = c.n;
    if (l->tensors != NULL)
        l->tensors[l->n_tensors] = t;
    l->n_tensors++;
}

static void lay_out(struct adapter_layout *l, const struct model_config *c,
                    const struct adapter_config *adapter)
{
    for (int64_t layer = 0; layer < c->n_layers; layer++)
        for (int k = 0; k < LINEAR_KINDS; k++) {
            enum linear_kind kind = (enum linear_kind)k;
            if (l->index != NULL)
                l->index[layer * LINEAR_KINDS + k] =
                    is_target(adapter, k) ? (int32_t)l->n_tensors : -1;
            if (!is_target(adapter, k))
                continue;
            add_tensor(l, (struct param_tensor){.rows = adapter->rank,
                                                .cols = linear_in(c, kind),
                                                .layer = layer,
                                                .kind = kind});
            add_tensor(l, (struct param_tensor){.rows = linear_out(c, kind),
                                                .cols = adapter->rank,
                                                .layer = layer,
                                                .kind = kind,
                                                .is_b = true});
        }
}

int64_t adapter_layout_floats(const struct model_config *c, const struct adapter_config *adapter)
{
    struct adapter_layout l = {.tensors = NULL};
    lay_out(&l, c, adapter);
    return l.n;
}

ft_status adapter_layout_init(struct adapter_layout *out, const struct model_config *c,
                              const struct adapter_config *adapter, ft_error *err)
{
    size_t layers = (size_t)c->n_layers, tensors = 2 * layers * targets_per_layer(adapter);
    *out = (struct adapter_layout){.tensors = NULL};
    FT_TRY(mem_new(&out->tensors, tensors, sizeof *out->tensors, "the adapter's layout", err));
    FT_TRY(mem_new(&out->index, layers * LINEAR_KINDS, sizeof *out->index, "the adapter's layout",
                   err));
    lay_out(out, c, adapter);
    FT_ASSERT(out->n_tensors == tensors);
    return FT_OK;
}

void adapter_layout_reset(struct adapter_layout *l)
{
    mem_free(l->tensors);
    mem_free(l->index);
    *l = (struct adapter_layout){.tensors = NULL};
}

void adapter_init_values(float *values, const struct adapter_layout *l, uint64_t seed)
{
    memset(values, 0, (size_t)l->n * sizeof *values);
    for (size_t i = 0; i < l->n_tensors; i++) {
        const struct param_tensor *t = &l->tensors[i];
        if (t->is_b)
            continue;
        double bound = 1 / sqrt((double)t->cols);
        uint64_t stream = (uint64_t)(t->layer * LINEAR_KINDS + (int64_t)t->kind);
        for (int64_t e = 0; e < t->rows * t->cols; e++)
            values[t->offset + e] = (float)(bound * (2 * rng_unit(seed, stream, (uint64_t)e) - 1));
    }
}
