/* SPDX-License-Identifier: Apache-2.0
 * The rules themselves, and how they are shown to people. */
#include "tools/lint.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

const char *const lint_severity_names[LINT_SEVERITIES] = {"note", "warning", "error"};

const struct lint_rule lint_rules[LINT_CODES] = {
    [LINT_J01] = {"J01", LINT_NOTE, "a value is of another type than in earlier rows",
                  "Tools that infer one schema for a file (pyarrow, Hugging Face datasets) fail "
                  "with \"Column() changed from object to array\". The build reads row by row and "
                  "takes columns as they come.",
                  NULL},
    [LINT_J02] = {"J02", LINT_NOTE, "ids of different types",
                  "Some rows have a number as id and others a string; pyarrow refuses such a file. "
                  "The build uses no id: rows are named by file and number.",
                  NULL},
    [LINT_J03] = {"J03", LINT_NOTE, "the file has more than 2 GiB",
                  "Tools that keep a column in one Arrow array fail with \"offset overflow\". The "
                  "build streams files of any size.",
                  NULL},
    [LINT_J04] = {"J04", LINT_ERROR, "Python instead of JSON",
                  "The row has single quotes, None, True or False, as str() of a Python value "
                  "gives. Write rows with json.dumps. Turning quotes around by search and replace "
                  "breaks texts with an apostrophe, so --fix does not try.",
                  NULL},
    [LINT_J05] = {"J05", LINT_NOTE, "the row is a bare list of messages",
                  "Accepted as the list of messages. Other programs expect an object with "
                  "\"messages\".",
                  NULL},
    [LINT_J06] = {"J06", LINT_NOTE, "numbers and strings in one list",
                  "A list in a column that the build ignores mixes types. Ignored columns may hold "
                  "anything here; pyarrow refuses the file.",
                  NULL},
    [LINT_J07] = {"J07", LINT_ERROR, "no chat file",
                  "The file cannot be cut into rows: another format (Parquet, an archive), or an "
                  "array that is not closed properly. What comes behind this place was not "
                  "checked.",
                  NULL},
    [LINT_J08] = {"J08", LINT_ERROR, "not JSON",
                  "A syntax error, text behind the value, or a key that is given twice (parsers "
                  "disagree which one counts). Other tools stop without naming the row.",
                  NULL},
    [LINT_J09] = {"J09", LINT_NOTE, "byte-order mark",
                  "The file begins with the bytes EF BB BF, which Python's json.load refuses. The "
                  "build skips them.",
                  "left out"},
    [LINT_J10] = {"J10", LINT_ERROR, "not UTF-8, or no text",
                  "Bytes that are no UTF-8 (GBK, Latin-1, UTF-16, overlong forms), a lone "
                  "surrogate escape such as \\ud83d, or a raw control character inside a string. "
                  "Guessing would train on garbage. Convert the file, for example with iconv -f "
                  "GBK -t UTF-8.",
                  NULL},
    [LINT_J11] = {"J11", LINT_WARNING, "a row of more than 16 MiB",
                  "Memory is bounded by the largest row, here and elsewhere, and a conversation of "
                  "this size fits no context. Often a whole file ended up in one row.",
                  NULL},
    [LINT_J12] = {"J12", LINT_ERROR, "trailing comma, NaN or Infinity",
                  "JavaScript and Python write and read these, JSON has none of them.",
                  "commas before } and ], and behind the row, are left out; NaN stays"},
    [LINT_J13] = {"J13", LINT_ERROR, "no messages",
                  "The row is no object, or has no list under \"messages\". A misspelt or foreign "
                  "column name is the usual cause; the message names the keys that are there.",
                  NULL},
    [LINT_J14] = {"J14", LINT_ERROR, "a row or file is cut off",
                  "It ends inside a value. At the end of a file: an interrupted download or copy; "
                  "the rows before it are whole. In every row: values are spread over several "
                  "lines, but rows are one line each, or elements of one JSON array.",
                  NULL},
    [LINT_J15] = {"J15", LINT_NOTE, "CR LF, blank lines or no line end at the end",
                  "Harmless here; line-by-line readers with json.loads fail at a blank line, and "
                  "appending to a file without a last line end joins two rows.",
                  "one row a line, each ended by LF"},
    [LINT_J16] = {"J16", LINT_NOTE, "U+0000 in a text",
                  "Legal JSON and kept, but C programs and databases cut such a text at that "
                  "place. Mostly a sign of binary data.",
                  NULL},
    [LINT_M00] = {"M00", LINT_ERROR, "refused for another reason",
                  "The build refuses the row for a reason that has no code of its own; the message "
                  "is the one the build would give.",
                  NULL},
    [LINT_M01] = {"M01", LINT_WARNING, "nothing is trained",
                  "Every assistant message has its loss off and no other has it on. The build "
                  "drops the row and counts it.",
                  NULL},
    [LINT_M02] = {"M02", LINT_NOTE, "loss is null",
                  "Null means absent: assistant messages are trained, others are not. Tools that "
                  "load rows through Arrow put null wherever a key is missing, and XTuner 0.2.0 "
                  "then leaves the turn out without a word.",
                  "true for the assistant, false for others"},
    [LINT_M03] = {"M03", LINT_ERROR, "a loss flag that is neither on nor off",
                  "Accepted are true, false, 1, 0 and the words \"true\" and \"false\". A fraction "
                  "is a weight, which is not supported; \"loss\" and \"weight\" may not contradict "
                  "each other; a misspelt flag would train what it means to leave out.",
                  NULL},
    [LINT_M04] = {"M04", LINT_NOTE, "a user or system message is trained",
                  "Its loss is on, and the build honours it. XTuner and ms-swift look at assistant "
                  "messages only and ignore it without a word.",
                  NULL},
    [LINT_M05] = {"M05", LINT_NOTE, "a loss flag in words or numbers, or called weight",
                  "Understood here. XTuner 0.2.0 trains \"true\" and does not train 1; others "
                  "differ again.",
                  "true or false, under the same key"},
    [LINT_M06] = {"M06", LINT_WARNING, "messages behind the last assistant message",
                  "Nothing is learnt from them, so the build leaves them out and counts them.",
                  "left out, unless one has its loss on"},
    [LINT_M07] = {"M07", LINT_WARNING, "two user messages in a row",
                  "Templates of Llama and Mistral raise \"roles must alternate\"; XTuner joins the "
                  "texts without a separator. Often an answer got lost between them.",
                  NULL},
    [LINT_M08] = {"M08", LINT_WARNING, "no assistant message",
                  "There is nothing to learn. The build drops the row and counts it.", NULL},
    [LINT_M09] = {"M09", LINT_WARNING, "an empty assistant message",
                  "Trained, it would teach the model to answer with nothing. The build keeps it as "
                  "context and does not train it; with --strict it is an error.",
                  NULL},
    [LINT_M10] = {"M10", LINT_WARNING, "all assistant messages are empty",
                  "0 trainable tokens: other programs train the end of turn alone or report a "
                  "mismatch. The build drops the row and counts it.",
                  NULL},
    [LINT_M11] = {"M11", LINT_ERROR, "a message without content",
                  "\"content\" is missing or null and there are no tool calls that could stand in "
                  "its place.",
                  NULL},
    [LINT_M12] = {"M12", LINT_NOTE, "tool calls",
                  "They are trained only by a template that renders them; with --tokenizer and "
                  "--template the check tells. Other programs drop them in silence.",
                  NULL},
    [LINT_M13] = {"M13", LINT_NOTE, "an argument of a tool call changes its type",
                  "The same argument is a string in one row and a number in another. pyarrow "
                  "refuses such a file, or fills every call with nulls for the arguments of all "
                  "others. Here each row keeps its own.",
                  NULL},
    [LINT_M14] = {"M14", LINT_ERROR, "content that is no text",
                  "Accepted are a string and a list of {\"type\": \"text\", \"text\": ...} parts. "
                  "Images and other parts are not supported in chat rows.",
                  NULL},
    [LINT_M15] = {"M15", LINT_ERROR, "an unknown role",
                  "Only known roles can be rendered. Human, gpt and the like are names of the same "
                  "roles in other formats.",
                  "human -> user, gpt, bot and model -> assistant, and known roles in capitals"},
    [LINT_M16] = {"M16", LINT_NOTE, "an empty system message",
                  "Some templates render an empty block for it and others nothing, so that the "
                  "model sees a prompt at inference which it was not trained on.",
                  "left out"},
    [LINT_M17] = {"M17", LINT_WARNING, "arguments of a tool call that are no JSON",
                  "A string under \"arguments\" holds the JSON text of an object. This one does "
                  "not parse: the model would learn to write broken calls.",
                  NULL},
    [LINT_M18] = {"M18", LINT_ERROR, "two system messages in a row",
                  "XTuner keeps the last one and forgets the others. Join them into one.", NULL},
    [LINT_M19] = {"M19", LINT_NOTE, "two assistant messages in a row",
                  "Rendered as two turns; with XTuner's templates the second answers an empty "
                  "question. Templates that demand alternating roles refuse the row.",
                  NULL},
    [LINT_M20] = {"M20", LINT_NOTE, "the assistant speaks first",
                  "Nothing asks for this message. XTuner drops leading assistant messages; many "
                  "templates refuse them.",
                  NULL},
    [LINT_M21] = {"M21", LINT_WARNING, "a flag of another program is ignored",
                  "\"train\", \"loss_scale\", \"mask\" and the like mean something to Axolotl or "
                  "ms-swift and nothing here: the message is trained by its role. Write "
                  "\"loss\": true or false.",
                  NULL},
    [LINT_T01] = {"T01", LINT_WARNING, "a token lies across the border of what is trained",
                  "The prompt's last characters and the answer's first ones became one token, so "
                  "the mask has to count it to one side (that of its first byte), and the model "
                  "never sees this token when it generates. Change the template or the white space "
                  "at the border.",
                  NULL},
    [LINT_T02] = {"T02", LINT_WARNING, "the template's end of turn is no token here",
                  "The text that ends the assistant's turn is not one special token of this "
                  "tokenizer. A model trained so never stops. Take the template of the model.",
                  NULL},
    [LINT_T03] = {"T03", LINT_WARNING, "two beginnings of sequence",
                  "The sample starts with the BOS token twice, which the model has never seen: the "
                  "template's text holds it and something adds it again.",
                  NULL},
    [LINT_T04] = {"T04", LINT_NOTE, "BOS inside the sample",
                  "XTuner's templates without an own end of turn begin every turn with BOS. The "
                  "ids are kept as XTuner makes them; the model's own template has one BOS.",
                  NULL},
    [LINT_T05] = {"T05", LINT_WARNING, "the prompt fills the maximum length",
                  "No trained token lies within --max-length. Trained anyway, such a sample gives "
                  "a loss of 0 or NaN. The build drops and counts it.",
                  NULL},
    [LINT_T06] = {"T06", LINT_WARNING, "no token is trained",
                  "The build drops the row and counts it.", NULL},
    [LINT_T07] = {"T07", LINT_WARNING, "longer than the maximum length",
                  "The build drops the row or, as --too-long says, cuts it; both are counted.",
                  NULL},
    [LINT_T08] = {"T08", LINT_ERROR, "the template refuses the row",
                  "The template cannot render this conversation, or it cannot be told which of its "
                  "tokens are the assistant's. The message is the template's.",
                  NULL},
    [LINT_T10] = {"T10", LINT_WARNING, "a special token is typed inside a message",
                  "Encoded as ordinary text, so that nobody can end a turn from inside a message. "
                  "Hugging Face's tokenizers make the special token of it; --content-specials "
                  "parse does the same.",
                  NULL},
    [LINT_T11] =
        {"T11", LINT_WARNING, "a message imitates a turn",
         "The text holds what the template writes between two turns. To the model it looks "
         "like another turn: a transcript pasted into one message, or an injection.",
         NULL},
    [LINT_T12] = {"T12", LINT_WARNING, "the template is not the model's",
                  "The tokenizer comes with a chat template that renders a probe conversation "
                  "differently. The model would be trained on another format than it is used with.",
                  NULL},
};

enum lint_code lint_find(str name)
{
    for (int c = 0; c < LINT_CODES; c++)
        if (name.len == strlen(lint_rules[c].code) &&
            strncasecmp(name.ptr, lint_rules[c].code, name.len) == 0)
            return (enum lint_code)c;
    return LINT_CODES;
}

/* --- for people ------------------------------------------------------------------------------ */

static const char *const family_names[] = {"J: files and JSON", "M: messages",
                                           "T: template and tokens"};

void lint_document(struct buf *out)
{
    char family = '\0';
    for (int c = 0; c < LINT_CODES; c++) {
        const struct lint_rule *r = &lint_rules[c];
        if (r->code[0] != family) {
            family = r->code[0];
            buf_printf(out, "%s## %s\n", c == 0 ? "" : "\n",
                       family_names[family == 'J'   ? 0
                                    : family == 'M' ? 1
                                                    : 2]);
        }
        buf_printf(out, "\n**%s** %s: %s. %s", r->code, lint_severity_names[r->severity], r->title,
                   r->why);
        if (r->fix != NULL)
            buf_printf(out, " `--fix`: %s.", r->fix);
        buf_byte(out, '\n');
    }
}

/* Breaks text at spaces into lines of at most `width`, each indented by two. */
static void put_wrapped(struct buf *out, str text, size_t width)
{
    size_t column = 0;
    while (text.len > 0) {
        str word = str_cut(&text, ' ');
        if (column > 0 && column + 1 + word.len > width) {
            buf_byte(out, '\n');
            column = 0;
        }
        buf_cstr(out, column == 0 ? "  " : " ");
        buf_str(out, word);
        column += word.len + (column > 0);
    }
    buf_byte(out, '\n');
}

void lint_explain(struct buf *out, enum lint_code code)
{
    const struct lint_rule *r = &lint_rules[code];
    buf_printf(out, "%s (%s): %s\n", r->code, lint_severity_names[r->severity], r->title);
    put_wrapped(out, str_from(r->why), 76);
    if (r->fix != NULL)
        buf_printf(out, "  --fix: %s\n", r->fix);
}

/* --- findings -------------------------------------------------------------------------------- */

void lint_list_clear(struct lint_list *l)
{
    l->n = 0;
    memset(l->counts, 0, sizeof l->counts);
    arena_destroy(&l->arena);
    l->failed = false;
}

static const char *keep(struct lint_list *l, const char *text)
{
    str s = str_from(text);
    s.len = FT_MIN(s.len, str_utf8_invalid_at(s)); /* a character cut at the end of the buffer */
    char *copy = (char *)(uintptr_t)arena_cstr(&l->arena, s);
    if (copy == NULL) {
        l->failed = true;
        return "";
    }
    for (char *p = copy; *p != '\0'; p++)
        *p = (unsigned char)*p < 0x20 || *p == 0x7F ? '?' : *p;
    return copy;
}

void lint_add(struct lint_list *l, enum lint_code code, const char *field, const char *fmt, ...)
{
    char text[600];
    va_list args;
    l->counts[code]++;
    if (l->n == LINT_ROW_FINDINGS)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    l->items[l->n++] = (struct lint_finding){code, keep(l, field), keep(l, text)};
}

bool lint_has_errors(const struct lint_list *l)
{
    for (int c = 0; c < LINT_CODES; c++)
        if (l->counts[c] > 0 && lint_rules[c].severity == LINT_ERROR)
            return true;
    return false;
}
