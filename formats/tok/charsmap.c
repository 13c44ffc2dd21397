/* SPDX-License-Identifier: Apache-2.0
 * A unit of the double array is a node: the low eight bits are the byte that leads to it, bit 8
 * says that a leaf hangs below it, the bits from 9 are the distance to its children, which are at
 * (place ^ distance) ^ byte; the leaf is at (place ^ distance). A leaf has the top bit set and an
 * offset in the others. */
#include "formats/tok/charsmap.h"

#include <string.h>

#include "common/mem.h"
#include "formats/tok/grapheme.h"

enum { MAX_MATCHES = 32 }; /* SentencePiece looks at no more rules in one place */

#define LEAF UINT32_C(0x80000000)

static uint32_t label_of(uint32_t unit)
{
    return unit & (LEAF | 0xFF);
}

static bool has_leaf(uint32_t unit)
{
    return (unit >> 8 & 1) != 0;
}

static uint32_t distance_of(uint32_t unit)
{
    return (unit >> 10) << ((unit & 1u << 9) >> 6);
}

/* --- look-ups -----------------------------------------------------------------------------------
 */

static str replacement_at(const struct charsmap *m, uint32_t leaf)
{
    str s = str_sub(m->replacements, leaf & ~LEAF, m->replacements.len);
    return str_cut(&s, '\0');
}

static size_t find(str *replacement, const struct charsmap *m, str text, bool shortest)
{
    size_t found = 0, n_matches = 0;
    uint32_t leaf = 0;
    if (m->units == NULL)
        return 0;
    uint32_t at = distance_of(m->units[0]);
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = (uint8_t)text.ptr[i];
        if (shortest && c == 0)
            break;
        uint32_t unit = m->units[at ^ c];
        if (label_of(unit) != c)
            break;
        at ^= c ^ distance_of(unit);
        if (!has_leaf(unit))
            continue;
        leaf = m->units[at];
        found = i + 1;
        if (shortest || ++n_matches == MAX_MATCHES)
            break;
    }
    if (found > 0)
        *replacement = replacement_at(m, leaf);
    return found;
}

size_t charsmap_longest(str *replacement, const struct charsmap *m, str text)
{
    return find(replacement, m, text, false);
}

enum { SHORT_CLUSTER = 5 };

static size_t char_bytes(uint8_t lead)
{
    return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

/* The commonest case: nothing is done to an ASCII character before another one. */
static bool is_plain(const struct charsmap *m, str text)
{
    uint8_t c = (uint8_t)text.ptr[0];
    return c < 0x80 && c != '\r' && charsmap_plain(m, c) &&
           (text.len == 1 || (uint8_t)text.ptr[1] < 0x80);
}

size_t charsmap_next(str *becomes, size_t *single, const struct charsmap *m, str text)
{
    if (*single == 0 && is_plain(m, text)) {
        *becomes = str_sub(text, 0, 1);
        return 1;
    }
    if (*single == 0) {
        size_t bytes = grapheme_bytes(text);
        if (bytes <= SHORT_CLUSTER && find(becomes, m, str_sub(text, 0, bytes), true) > 0)
            return bytes;
        *single = bytes; /* to be taken one by one */
    }
    str c = str_sub(text, 0, char_bytes((uint8_t)text.ptr[0]));
    *single -= c.len;
    if (find(becomes, m, c, true) == 0)
        *becomes = c;
    return c.len;
}

/* --- checks -------------------------------------------------------------------------------------
 */

/* Where the children of a unit are, before the byte that leads to each. */
static uint32_t base_of(const struct charsmap *m, size_t i)
{
    return (uint32_t)i ^ distance_of(m->units[i]);
}

static ft_status check_unit(const struct charsmap *m, size_t i, ft_error *err)
{
    if (label_of(m->units[i]) > 0xFF)
        return FT_OK;
    if ((base_of(m, i) | 0xFF) >= m->n_units)
        return ft_fail(err, FT_EFORMAT, "unit %zu of the rules points behind their end", i);
    if (!has_leaf(m->units[i]))
        return FT_OK;
    uint32_t leaf = m->units[base_of(m, i)];
    if ((leaf & LEAF) == 0 || (leaf & ~LEAF) >= m->replacements.len)
        return ft_fail(err, FT_EFORMAT, "unit %zu of the rules has no replacement", i);
    if (((uint8_t)m->replacements.ptr[leaf & ~LEAF] & 0xC0) == 0x80)
        return ft_fail(err, FT_EFORMAT, "the replacement of unit %zu begins inside a character", i);
    return FT_OK;
}

static ft_status check_units(const struct charsmap *m, ft_error *err)
{
    if (label_of(m->units[0]) != 0 || has_leaf(m->units[0]) || distance_of(m->units[0]) == 0)
        return ft_fail(err, FT_EFORMAT, "unit 0 of the rules is no root");
    for (size_t i = 0; i < m->n_units; i++)
        FT_TRY(check_unit(m, i, err));
    return FT_OK;
}

/* Nodes with the same base share their children. A path longer than a key, or one without an end,
 * would make look-ups run through the whole text again and again. */
struct depth_check {
    const struct charsmap *m;
    uint32_t *first; /* [n_units] by base: the first child, 0 = none */
    uint32_t *next;  /* [n_units]: the next child of the same base, 0 = none */
    uint16_t
        *height; /* [n_units] by base: nodes on the longest path below, plus 1; 0 = not known */
};

static void link_children(struct depth_check *d)
{
    for (uint32_t i = 0; i < d->m->n_units; i++) {
        uint32_t label = label_of(d->m->units[i]);
        if (label > 0xFF)
            continue;
        d->next[i] = d->first[i ^ label];
        d->first[i ^ label] = i + 1;
    }
}

/* False when a path of more than `room` nodes begins at base: this also ends the recursion in a
 * cycle. */
static bool measure(struct depth_check *d, uint32_t base, unsigned room)
{
    unsigned height = 1;
    if (d->height[base] > 0)
        return d->height[base] - 1u <= room;
    for (uint32_t child = d->first[base]; child != 0; child = d->next[child]) {
        uint32_t below = base_of(d->m, child - 1);
        if (room == 0 || !measure(d, below, room - 1))
            return false;
        height = FT_MAX(height, d->height[below] + 1u);
    }
    d->height[base] = (uint16_t)height;
    return true;
}

static ft_status check_depth(const struct charsmap *m, ft_error *err)
{
    struct arena scratch = {0};
    struct depth_check d = {m, arena_alloc(&scratch, m->n_units, sizeof *d.first),
                            arena_alloc(&scratch, m->n_units, sizeof *d.next),
                            arena_alloc(&scratch, m->n_units, sizeof *d.height)};
    ft_status st = FT_OK;
    if (d.first == NULL || d.next == NULL || d.height == NULL) {
        st = ft_fail_memory(err, 10 * m->n_units, "the normalisation rules");
    } else {
        link_children(&d);
        if (!measure(&d, base_of(m, 0), CHARSMAP_MAX_KEY))
            st = ft_fail(err, FT_EFORMAT, "the rules replace strings of more than %d bytes",
                         CHARSMAP_MAX_KEY);
    }
    arena_destroy(&scratch);
    return st;
}

static ft_status check_replacements(const struct charsmap *m, ft_error *err)
{
    str rest = m->replacements;
    size_t bad = str_utf8_invalid_at(rest);
    if (rest.len == 0 || rest.ptr[rest.len - 1] != '\0')
        return ft_fail(err, FT_EFORMAT, "the replacements do not end with a NUL");
    if (bad != rest.len)
        return ft_fail(err, FT_EFORMAT, "the replacements are not valid UTF-8 at their byte %zu",
                       bad);
    while (rest.len > 0)
        if (str_cut(&rest, '\0').len > CHARSMAP_MAX_REPLACEMENT)
            return ft_fail(err, FT_ELIMIT, "a replacement has more than %d bytes",
                           CHARSMAP_MAX_REPLACEMENT);
    return FT_OK;
}

/* --- what needs no look-up ---------------------------------------------------------------------
 */

/* The unit that c leads to, or 0: none. */
static uint32_t step(const struct charsmap *m, uint32_t base, uint8_t c)
{
    return label_of(m->units[base ^ c]) == c ? base ^ c : 0;
}

static bool plain_byte(const struct charsmap *m, uint8_t c)
{
    uint32_t node = step(m, base_of(m, 0), c);
    if (node == 0)
        return true;
    if (has_leaf(m->units[node]))
        return false;
    for (unsigned next = 0; next < 0x80; next++)
        if (step(m, base_of(m, node), (uint8_t)next) != 0)
            return false;
    return true;
}

static bool may_start(const struct charsmap *m, uint32_t code_point)
{
    char utf8[4];
    size_t n = str_utf8_put(utf8, code_point);
    uint32_t base = base_of(m, 0);
    for (size_t i = 0; i < n; i++) {
        uint32_t node = step(m, base, (uint8_t)utf8[i]);
        if (node == 0)
            return false;
        if (has_leaf(m->units[node])) /* even a rule that ends inside a character */
            return true;
        base = base_of(m, node);
    }
    return true;
}

static ft_status note_starts(struct charsmap *m, struct arena *a, ft_error *err)
{
    m->plain = arena_alloc(a, 256, 1);
    m->starts = arena_alloc(a, 65536 / 8, 1);
    if (m->plain == NULL || m->starts == NULL)
        return ft_fail_memory(err, 65536 / 8 + 256, "the normalisation rules");
    for (uint32_t c = 0; c < 0x80; c++)
        m->plain[c] = plain_byte(m, (uint8_t)c);
    for (uint32_t c = 0; c <= 0xFFFF; c++)
        if ((c < 0xD800 || c > 0xDFFF) && may_start(m, c))
            m->starts[c >> 3] |= (uint8_t)(1u << (c & 7));
    return FT_OK;
}

/* --- loading ------------------------------------------------------------------------------------
 */

static ft_status copy_units(struct charsmap *m, struct arena *a, str bytes, ft_error *err)
{
    m->n_units = bytes.len / 4;
    m->units = arena_alloc(a, m->n_units, sizeof *m->units);
    if (m->units == NULL)
        return ft_fail_memory(err, bytes.len, "the normalisation rules");
    for (size_t i = 0; i < m->n_units; i++)
        m->units[i] = load_u32le(bytes.ptr + 4 * i);
    return FT_OK;
}

ft_status charsmap_init(struct charsmap *m, struct arena *a, str bytes, ft_error *err)
{
    *m = (struct charsmap){0};
    if (bytes.len > CHARSMAP_MAX_BYTES)
        return ft_fail(err, FT_ELIMIT, "the rules have %zu bytes, at most %d are supported",
                       bytes.len, CHARSMAP_MAX_BYTES);
    uint64_t unit_bytes = bytes.len > 4 ? load_u32le(bytes.ptr) : 0;
    if (unit_bytes < 1024 || unit_bytes % 1024 != 0 || unit_bytes >= bytes.len - 4)
        return ft_fail(err, FT_EFORMAT, "the rules begin with the length %llu; they have %zu bytes",
                       (unsigned long long)unit_bytes, bytes.len);
    m->replacements = arena_str(a, str_sub(bytes, 4 + (size_t)unit_bytes, bytes.len));
    if (m->replacements.ptr == NULL)
        return ft_fail_memory(err, bytes.len, "the normalisation rules");
    FT_TRY(copy_units(m, a, str_sub(bytes, 4, 4 + (size_t)unit_bytes), err));
    FT_TRY(check_replacements(m, err));
    FT_TRY(check_units(m, err));
    FT_TRY(check_depth(m, err));
    return note_starts(m, a, err);
}
