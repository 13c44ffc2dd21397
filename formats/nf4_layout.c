/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/nf4_layout.h"

const char *const nf4_from_names[NF4_FROMS] = {"checkpoint", "f16", "bf16"};

bool nf4_part_sizes(size_t sizes[NF4_MAX_PARTS], int *n, enum dtype t, int64_t rows, int64_t cols)
{
    int64_t numel;
    size_t row_bytes;
    *n = 1;
    if (rows < 1 || cols < 1 || __builtin_mul_overflow(rows, cols, &numel) ||
        numel > INT64_MAX / 16)
        return false;
    if (t != DT_NF4)
        return (dtype_block(t) == 1 || cols % dtype_block(t) == 0) &&
               dtype_bytes(t, cols, &row_bytes) && size_mul(row_bytes, (size_t)rows, sizes);
    *n = 3;
    sizes[0] = (size_t)(numel + 1) / 2;
    sizes[1] = (size_t)nf4_blocks(numel);
    sizes[2] = (size_t)nf4_blocks2(numel) * sizeof(float);
    return true;
}

uint64_t nf4_place_part(uint64_t *at, size_t bytes)
{
    uint64_t start = size_align(*at, bytes >= NF4_BIG_PART ? NF4_PAGE : NF4_ALIGN);
    *at = start + bytes;
    return start;
}

ft_status nf4_hash_start(struct hasher *h, const struct model_config *c, const float *map,
                         ft_error *err)
{
    struct buf text = {0};
    model_config_to_hf(&text, c);
    ft_status st = buf_status(&text, "a model configuration", err);
    if (st == FT_OK) {
        hasher_field(h, buf_view(&text));
        hasher_update(h, map, NF4_MAP * sizeof *map);
    }
    buf_free(&text);
    return st;
}

void nf4_hash_tensor(struct hasher *h, const char *name, enum dtype t)
{
    hasher_field(h, str_from(name));
    hasher_field(h, str_from(dtype_name(t)));
}
