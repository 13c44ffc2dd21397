/* SPDX-License-Identifier: Apache-2.0
 * Lint of chat rows: one table of rules, functions that find what breaks them, and fixes for the
 * harmless kinds. A rule of severity "error" is one that `ftprep build` refuses as well. */
#ifndef TOOLS_LINT_H
#define TOOLS_LINT_H

#include "common/arena.h"
#include "common/buf.h"
#include "tools/source.h"

enum lint_severity { LINT_NOTE, LINT_WARNING, LINT_ERROR, LINT_SEVERITIES };
extern const char *const lint_severity_names[LINT_SEVERITIES];

/* J: files and JSON, M: messages, T: template and tokens. The letters and numbers are stable. */
enum lint_code {
    LINT_J01,
    LINT_J02,
    LINT_J03,
    LINT_J04,
    LINT_J05,
    LINT_J06,
    LINT_J07,
    LINT_J08,
    LINT_J09,
    LINT_J10,
    LINT_J11,
    LINT_J12,
    LINT_J13,
    LINT_J14,
    LINT_J15,
    LINT_J16,
    LINT_M00,
    LINT_M01,
    LINT_M02,
    LINT_M03,
    LINT_M04,
    LINT_M05,
    LINT_M06,
    LINT_M07,
    LINT_M08,
    LINT_M09,
    LINT_M10,
    LINT_M11,
    LINT_M12,
    LINT_M13,
    LINT_M14,
    LINT_M15,
    LINT_M16,
    LINT_M17,
    LINT_M18,
    LINT_M19,
    LINT_M20,
    LINT_M21,
    LINT_T01,
    LINT_T02,
    LINT_T03,
    LINT_T04,
    LINT_T05,
    LINT_T06,
    LINT_T07,
    LINT_T08,
    LINT_T10,
    LINT_T11,
    LINT_T12,
    LINT_CODES
};

struct lint_rule {
    const char *code; /* "M04" */
    enum lint_severity severity;
    const char *title;
    const char *why; /* what goes wrong, what the build does, what to do */
    const char *fix; /* what --fix writes instead; NULL = a person has to decide */
};
extern const struct lint_rule lint_rules[LINT_CODES];
/* LINT_CODES when there is none of that name; capitals do not matter. */
enum lint_code lint_find(str name);
/* All rules as Markdown: the reference part of docs/lint.md. */
void lint_document(struct buf *out);
/* One rule for a terminal. */
void lint_explain(struct buf *out, enum lint_code code);

/* --- findings of one row --------------------------------------------------------------------- */

enum { LINT_ROW_FINDINGS = 32, LINT_FIELD_BYTES = 64 };

struct lint_finding {
    enum lint_code code;
    const char *field; /* "messages[2].loss"; "" = the row */
    const char *text;  /* one line */
};

/* Zeroed = empty. All findings are counted, the first LINT_ROW_FINDINGS of a row are kept. */
struct lint_list {
    struct lint_finding items[LINT_ROW_FINDINGS];
    size_t n;
    uint32_t counts[LINT_CODES];
    struct arena arena;
    bool failed; /* out of memory */
};

void lint_list_clear(struct lint_list *l);
/* Control characters appear as '?'; a text ends where it is no UTF-8. */
void lint_add(struct lint_list *l, enum lint_code code, const char *field, const char *fmt, ...)
    FT_PRINTF(4, 5);
bool lint_has_errors(const struct lint_list *l);

/* --- rules on one row ------------------------------------------------------------------------ */

/* Parses the row. When it is no JSON, says what kind of fault it is and leaves *out NULL. */
FT_NODISCARD ft_status lint_json(struct json_doc **out, struct lint_list *l, str text,
                                 ft_error *err);
/* The M rules; false when the row has no list of messages. */
bool lint_messages(struct lint_list *l, const json *row, const struct source_options *o);

/* What --fix makes of a row: one line without its end. fixed[code] counts what was changed; doc is
 * the row as parsed, or NULL when it is no JSON. Everything that is not fixed stays byte for byte,
 * but for line ends between values. */
FT_NODISCARD ft_status lint_fix_row(struct buf *out, uint64_t fixed[LINT_CODES], str text,
                                    const struct json_doc *doc, const struct source_options *o,
                                    ft_error *err);

/* --- shared by rules and fixes --------------------------------------------------------------- */

/* The list of messages of a row, and the key it goes by; NULL when it has another shape or none. */
const json *lint_find_messages(const char **name, const json *row, const struct source_options *o);
/* What the build calls this role: "user" for "Human"; NULL when the spelling is right already or
 * nobody's. */
const char *lint_role_alias(str role);
/* A flag that is a number or word but means true or false. */
bool lint_flag_word(const json *v, bool *on);
bool lint_is_blank(str s); /* nothing but ASCII white space */

#endif
