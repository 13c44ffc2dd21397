/* SPDX-License-Identifier: Apache-2.0
 * Lists of messages: OpenAI's {"role", "content"}, ShareGPT's {"from", "value"}. */
#include <string.h>

#include "tools/source_shapes.h"

/* --- roles ------------------------------------------------------------------------------------ */

#define OPENAI_ROLES   "\"system\", \"developer\", \"user\", \"assistant\", \"tool\" or \"function\""
#define SHAREGPT_ROLES "\"system\", \"human\", \"gpt\" or \"tool\""

/* Which keys a message has and what its role may be. */
struct dialect {
    const char *role_key, *content_key, *expected;
    const struct role_name {
        const char *name;
        enum chat_role role;
    } * roles;
    size_t n_roles;
    bool is_openai;
};

static const struct role_name openai_roles[] = {
    {"system", CHAT_SYSTEM},       {"developer", CHAT_DEVELOPER}, {"user", CHAT_USER},
    {"assistant", CHAT_ASSISTANT}, {"tool", CHAT_TOOL},           {"function", CHAT_FUNCTION},
};
static const struct role_name sharegpt_roles[] = {
    {"system", CHAT_SYSTEM},     {"human", CHAT_USER},       {"gpt", CHAT_ASSISTANT},
    {"tool", CHAT_TOOL},         {"user", CHAT_USER},        {"assistant", CHAT_ASSISTANT},
    {"chatgpt", CHAT_ASSISTANT}, {"bing", CHAT_ASSISTANT},   {"bard", CHAT_ASSISTANT},
    {"model", CHAT_ASSISTANT},   {"observation", CHAT_TOOL},
};
static const struct dialect openai = {
    "role", "content", OPENAI_ROLES, openai_roles, ARRAY_LEN(openai_roles), true};
static const struct dialect sharegpt = {
    "from", "value", SHAREGPT_ROLES, sharegpt_roles, ARRAY_LEN(sharegpt_roles), false};

static ft_status unknown_role(const struct dialect *d, str role, ft_error *err)
{
    const char *names[ARRAY_LEN(sharegpt_roles)];
    char name[SHOWN_BYTES];
    for (size_t i = 0; i < d->n_roles; i++)
        names[i] = d->roles[i].name;
    const char *near = str_nearest(role, names, d->n_roles);
    return ft_fail(err, FT_EFORMAT, ".%s: \"%s\" is not known, expected %s%s%s%s", d->role_key,
                   source_shown(name, role), d->expected, near == NULL ? "" : "; did you mean \"",
                   near == NULL ? "" : near, near == NULL ? "" : "\"?");
}

static const struct dialect *dialect_of(const json *message)
{
    bool has_from = json_get(message, "from") != NULL && json_get(message, "role") == NULL;
    return has_from ? &sharegpt : &openai;
}

static bool find_role(enum chat_role *out, const struct dialect *d, str role)
{
    for (size_t i = 0; i < d->n_roles; i++)
        if (str_is(role, d->roles[i].name)) {
            *out = d->roles[i].role;
            return true;
        }
    return false;
}

bool source_message_role(enum chat_role *out, struct message_keys *keys, const json *message)
{
    const struct dialect *d = dialect_of(message);
    str role;
    *keys = (struct message_keys){d->role_key, d->content_key, d->is_openai};
    return json_str(json_get(message, d->role_key), &role) && find_role(out, d, role);
}

static ft_status read_role(enum chat_role *out, const json *message, const struct dialect *d,
                           ft_error *err)
{
    const json *v = json_get(message, d->role_key);
    str role;
    if (v == NULL)
        return source_missing_key(message, &d->role_key, 1, err);
    if (!json_str(v, &role))
        return ft_fail(err, FT_EFORMAT, ".%s: expected %s, found %s", d->role_key, d->expected,
                       json_kind_name(json_kind(v)));
    return find_role(out, d, role) ? FT_OK : unknown_role(d, role, err);
}

/* --- content ---------------------------------------------------------------------------------- */

static ft_status read_part(str *out, const json *part, ft_error *err)
{
    static const char *const keys[] = {"type", "text"};
    const json *type = json_get(part, "type"), *text = json_get(part, "text");
    str name;
    if (json_kind(part) != JSON_OBJECT)
        return source_wrong_kind("", "{\"type\": \"text\", \"text\": ...}", part, err);
    if (type == NULL)
        return source_missing_key(part, &keys[0], 1, err);
    if (!json_str(type, &name) || !str_is(name, "text"))
        return ft_fail(err, FT_EFORMAT, ".type: only \"text\" parts are supported");
    if (text == NULL)
        text = json_get(part, "value"); /* as LLaMA-Factory spells it */
    if (text == NULL)
        return source_missing_key(part, &keys[1], 1, err);
    if (!json_str(text, out))
        return source_wrong_kind(".text", "a string", text, err);
    return FT_OK;
}

/* Parts are joined without a separator. */
static ft_status read_parts(str *out, struct conversation *c, const char *key, const json *list,
                            ft_error *err)
{
    size_t i = 0, used = 0;
    char place[16], *text;
    str part;
    out->len = 0;
    for (const json *p = json_first(list); p != NULL; p = json_next(p), i++) {
        if (read_part(&part, p, err) != FT_OK) {
            snprintf(place, sizeof place, ".%s", key);
            return source_inside(place, i, err);
        }
        out->len += part.len; /* all inside one row, which is far below SIZE_MAX */
    }
    FT_TRY(source_room(&text, c, out->len, err));
    out->ptr = text;
    for (const json *p = json_first(list); p != NULL; p = json_next(p)) {
        FT_TRY(read_part(&part, p, err));
        if (part.len > 0)
            memcpy(text + used, part.ptr, part.len);
        used += part.len;
    }
    return FT_OK;
}

/* Tool calls may stand alone. */
static ft_status read_content(struct conversation *c, struct chat_message *m, const json *v,
                              const struct dialect *d, ft_error *err)
{
    const json *content = json_get(v, d->content_key);
    char path[16];
    m->content = STR("");
    if (json_str(content, &m->content) || (source_is_absent(content) && chat_message_has_calls(m)))
        return FT_OK;
    if (content == NULL)
        return source_missing_key(v, &d->content_key, 1, err);
    if (json_kind(content) == JSON_ARRAY)
        return read_parts(&m->content, c, d->content_key, content, err);
    snprintf(path, sizeof path, ".%s", d->content_key);
    return source_wrong_kind(path, "a string or a list of text parts", content, err);
}

/* --- messages --------------------------------------------------------------------------------- */

static ft_status read_loss(enum chat_loss *out, const json *message, ft_error *err)
{
    enum chat_loss weight;
    FT_TRY(source_read_flag(out, message, "loss", err));
    FT_TRY(source_read_flag(&weight, message, "weight", err));
    if (*out != CHAT_LOSS_DEFAULT && weight != CHAT_LOSS_DEFAULT && *out != weight)
        return ft_fail(err, FT_EFORMAT, ".loss: contradicts \"weight\", which means the same");
    if (*out == CHAT_LOSS_DEFAULT)
        *out = weight;
    return FT_OK;
}

static ft_status read_message(struct conversation *c, const json *v, ft_error *err)
{
    static const char *const keys[] = {"loss", "weight", "role", "content", "from", "value"};
    const struct dialect *d = dialect_of(v);
    struct chat_message m = {.json = d->is_openai ? v : NULL};
    if (json_kind(v) != JSON_OBJECT)
        return source_wrong_kind("", "an object with \"role\" and \"content\"", v, err);
    FT_TRY(read_role(&m.role, v, d, err));
    FT_TRY(read_content(c, &m, v, d, err));
    FT_TRY(source_opt_str(&m.name, v, "name", err));
    FT_TRY(source_refuse_misspelt(v, keys, ARRAY_LEN(keys), 2, err));
    FT_TRY(read_loss(&m.loss, v, err));
    return source_add(c, &m, err);
}

ft_status source_read_messages(struct conversation *out, const char *path, const json *list,
                               ft_error *err)
{
    size_t i = 0;
    if (json_kind(list) != JSON_ARRAY)
        return source_wrong_kind(path, "a list of messages", list, err);
    for (const json *v = json_first(list); v != NULL; v = json_next(v), i++)
        if (read_message(out, v, err) != FT_OK)
            return source_inside(path, i, err);
    return FT_OK;
}
