/* SPDX-License-Identifier: Apache-2.0
 * The components of a tokenizer.json around its model. */
#include "common/base64.h"
#include "formats/json.h"
#include "formats/tok/tok_export_priv.h"

static const char *truth(bool value)
{
    return value ? "true" : "false";
}

/* --- normalizer -------------------------------------------------------------------------------
 */

static void write_pattern(struct buf *out, const char *kind, str pattern)
{
    buf_printf(out, "\"pattern\": {\"%s\": ", kind);
    json_write_str(out, pattern);
    buf_cstr(out, "}, ");
}

static void write_replace(struct buf *out, const char *kind, str pattern, str content)
{
    buf_cstr(out, "{\"type\": \"Replace\", ");
    write_pattern(out, kind, pattern);
    buf_cstr(out, "\"content\": ");
    json_write_str(out, content);
    buf_byte(out, '}');
}

static void write_normalize_step(struct buf *out, const struct normalize_step *s)
{
    static const char *const plain[NORMALIZE_KINDS] = {
        [NORMALIZE_NFC] = "NFC",
        [NORMALIZE_NFD] = "NFD",
        [NORMALIZE_NFKC] = "NFKC",
        [NORMALIZE_NFKD] = "NFKD",
        [NORMALIZE_LOWERCASE] = "Lowercase",
        [NORMALIZE_STRIP_ACCENTS] = "StripAccents",
    };
    switch (s->kind) {
    case NORMALIZE_PREPEND:
        buf_cstr(out, "{\"type\": \"Prepend\", \"prepend\": ");
        json_write_str(out, s->content);
        buf_byte(out, '}');
        break;
    case NORMALIZE_REPLACE:
        write_replace(out, "String", s->pattern, s->content);
        break;
    case NORMALIZE_REGEX:
        write_replace(out, "Regex", s->pattern, s->content);
        break;
    case NORMALIZE_STRIP:
        buf_printf(out, "{\"type\": \"Strip\", \"strip_left\": %s, \"strip_right\": %s}",
                   truth(s->flags & NORMALIZE_LEFT), truth(s->flags & NORMALIZE_RIGHT));
        break;
    case NORMALIZE_PRECOMPILED:
        buf_cstr(out, "{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"");
        base64_write(out, s->content);
        buf_cstr(out, "\"}");
        break;
    default:
        buf_printf(out, "{\"type\": \"%s\"}", plain[s->kind]);
    }
}

void tok_export_normalizer(struct buf *out, const struct tok_steps *s)
{
    if (s->n_normalize == 0) {
        buf_cstr(out, "null");
        return;
    }
    buf_cstr(out, "{\"type\": \"Sequence\", \"normalizers\": [");
    for (size_t i = 0; i < s->n_normalize; i++) {
        buf_cstr(out, i == 0 ? "\n    " : ",\n    ");
        write_normalize_step(out, &s->normalize[i]);
    }
    buf_cstr(out, "\n  ]}");
}

/* --- pre_tokenizer ----------------------------------------------------------------------------
 */

static const char *const behaviors[PRETOK_BEHAVIORS] = {
    [PRETOK_ISOLATED] = "Isolated",
    [PRETOK_REMOVED] = "Removed",
    [PRETOK_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
    [PRETOK_MERGED_WITH_NEXT] = "MergedWithNext",
    [PRETOK_CONTIGUOUS] = "Contiguous",
};

static void write_split(struct buf *out, const char *kind, str pattern,
                        enum pretok_behavior behavior, bool invert)
{
    buf_cstr(out, "{\"type\": \"Split\", ");
    write_pattern(out, kind, pattern);
    buf_printf(out, "\"behavior\": \"%s\", \"invert\": %s}", behaviors[behavior], truth(invert));
}

static void write_byte_level(struct buf *out, const struct tok_steps *s, bool pattern)
{
    buf_printf(out,
               "{\"type\": \"ByteLevel\", \"add_prefix_space\": %s, \"trim_offsets\": true, "
               "\"use_regex\": %s}",
               truth(s->lead == TOK_LEAD_SPACE), truth(pattern));
}

static void write_stage(struct buf *out, const struct pretok_stage *p)
{
    switch (p->kind) {
    case PRETOK_SPLIT:
        write_split(out, p->dialect == PRETOK_LITERAL ? "String" : "Regex", p->pattern, p->behavior,
                    p->invert);
        break;
    case PRETOK_BYTE_LEVEL:
        write_split(out, "Regex", STR(TOK_GPT2_PATTERN), PRETOK_ISOLATED, false);
        break;
    case PRETOK_DIGITS:
        buf_printf(out, "{\"type\": \"Digits\", \"individual_digits\": %s}",
                   truth(p->behavior == PRETOK_ISOLATED));
        break;
    case PRETOK_PUNCTUATION:
        buf_printf(out, "{\"type\": \"Punctuation\", \"behavior\": \"%s\"}",
                   behaviors[p->behavior]);
        break;
    case PRETOK_WHITESPACE:
        buf_cstr(out, "{\"type\": \"Whitespace\"}");
        break;
    default:
        buf_cstr(out, "{\"type\": \"WhitespaceSplit\"}");
    }
}

static void write_metaspace(struct buf *out, const struct tok_steps *s)
{
    const char *scheme = s->lead == TOK_LEAD_NONE    ? "never"
                         : s->lead == TOK_LEAD_FIRST ? "first"
                                                     : "always";
    buf_printf(out,
               "{\"type\": \"Metaspace\", \"replacement\": \"" MODEL_MARK
               "\", \"prepend_scheme\": \"%s\", \"split\": %s}",
               scheme, truth(s->split));
}

void tok_export_pre_tokenizer(struct buf *out, const struct tok_steps *s, bool byte_level)
{
    /* The last stage may be the pattern that ByteLevel has itself. */
    size_t n = s->n_stages;
    bool pattern = byte_level && n > 0 && s->stages[n - 1].kind == PRETOK_BYTE_LEVEL;
    if (n == 0 && !byte_level && !s->metaspace) {
        buf_cstr(out, "null");
        return;
    }
    buf_cstr(out, "{\"type\": \"Sequence\", \"pretokenizers\": [");
    for (size_t i = 0; i < n - pattern; i++) {
        buf_cstr(out, i == 0 ? "\n    " : ",\n    ");
        write_stage(out, &s->stages[i]);
    }
    if (byte_level || s->metaspace)
        buf_cstr(out, n - pattern == 0 ? "\n    " : ",\n    ");
    if (byte_level)
        write_byte_level(out, s, pattern);
    else if (s->metaspace)
        write_metaspace(out, s);
    buf_cstr(out, "\n  ]}");
}

/* --- decoder ----------------------------------------------------------------------------------
 */

static void write_decode_step(struct buf *out, const struct decode_step *s)
{
    switch (s->kind) {
    case DECODE_BYTE_LEVEL:
        buf_cstr(out, "{\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": "
                      "true, \"use_regex\": true}");
        break;
    case DECODE_REPLACE:
        write_replace(out, "String", s->pattern, s->content);
        break;
    case DECODE_BYTE_FALLBACK:
        buf_cstr(out, "{\"type\": \"ByteFallback\"}");
        break;
    case DECODE_STRIP:
        buf_cstr(out, "{\"type\": \"Strip\", \"content\": ");
        json_write_str(out, s->content);
        buf_printf(out, ", \"start\": %u, \"stop\": 0}", s->n);
        break;
    case DECODE_METASPACE:
        buf_printf(out,
                   "{\"type\": \"Metaspace\", \"replacement\": \"" MODEL_MARK
                   "\", \"prepend_scheme\": \"%s\", \"split\": true}",
                   s->n != 0 ? "always" : "never");
        break;
    default:
        buf_cstr(out, "{\"type\": \"Fuse\"}");
    }
}

void tok_export_decoder(struct buf *out, const struct tok_steps *s)
{
    if (s->n_decode == 1) {
        write_decode_step(out, &s->decode[0]);
        return;
    }
    buf_cstr(out, "{\"type\": \"Sequence\", \"decoders\": [");
    for (size_t i = 0; i < s->n_decode; i++) {
        buf_cstr(out, i == 0 ? "\n    " : ",\n    ");
        write_decode_step(out, &s->decode[i]);
    }
    buf_cstr(out, "\n  ]}");
}
