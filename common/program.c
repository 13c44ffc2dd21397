/* SPDX-License-Identifier: Apache-2.0
 * The command line of a program with sub-commands: parsing, help, man pages, exit code.
 * Declared in opt.h. */
#include <string.h>

#include "common/fault.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/opt.h"

enum { HELP_COLUMN = 28, HELP_WIDTH = 96 };

static const struct command *find_command(const struct program *p, const char *name)
{
    for (size_t i = 0; i < p->n_commands; i++)
        if (strcmp(p->commands[i].name, name) == 0)
            return &p->commands[i];
    return NULL;
}

/* --- help --------------------------------------------------------------------------------------
 */

/* Wraps text at HELP_WIDTH with every line after the first indented to `column`. */
static void print_wrapped(FILE *f, const char *text, int column)
{
    int at = column;
    str rest = str_from(text);
    while (rest.len > 0) {
        str word = str_cut(&rest, ' ');
        if (at + (int)word.len + 1 > HELP_WIDTH && at > column) {
            fprintf(f, "\n%*s", column, "");
            at = column;
        }
        fprintf(f, "%s%.*s", at > column ? " " : "", STR_ARG(word));
        at += (int)word.len + 1;
    }
    fputc('\n', f);
}

/* "--max-length N" or "optimizer.lr=X" */
static void option_label(char *dst, size_t cap, const struct opt *o, bool is_config)
{
    const char *meta = o->type == OPT_CHOICE ? o->choices : o->metavar == NULL ? "X" : o->metavar;
    if (is_config)
        snprintf(dst, cap, "%s", o->name);
    else if (o->type == OPT_BOOL)
        snprintf(dst, cap, "--%s%s", o->def != NULL && strcmp(o->def, "true") == 0 ? "no-" : "",
                 o->name);
    else
        snprintf(dst, cap, "--%s %s", o->name, meta);
}

static void option_text(struct buf *b, const struct opt *o, bool is_config)
{
    buf_cstr(b, o->help);
    if (is_config && o->type == OPT_CHOICE)
        buf_printf(b, " (%s)", o->choices);
    if (o->required)
        buf_cstr(b, " (required)");
    else if (o->def != NULL && o->def[0] != '\0' && (o->type != OPT_BOOL || is_config))
        buf_printf(b, " [%s]", o->def);
    buf_byte(b, '\0');
}

static void print_options(FILE *f, const struct opt *table, size_t n, bool is_config)
{
    struct buf text = {0};
    char label[160];
    for (size_t i = 0; i < n; i++) {
        option_label(label, sizeof label, &table[i], is_config);
        buf_clear(&text);
        option_text(&text, &table[i], is_config);
        fprintf(f, "  %-*s", HELP_COLUMN - 2, label);
        if (strlen(label) >= HELP_COLUMN - 2) /* no room for a space behind it */
            fprintf(f, "\n%*s", HELP_COLUMN, "");
        if (!text.failed)
            print_wrapped(f, (const char *)text.data, HELP_COLUMN);
    }
    buf_free(&text);
}

static void print_command_help(FILE *f, const struct program *p, const struct command *c)
{
    fprintf(f, "usage: %s %s%s%s%s\n\n", p->name, c->name, c->n_options > 0 ? " [options]" : "",
            c->usage[0] != '\0' ? " " : "", c->usage);
    fprintf(f, "%s.\n", c->summary);
    if (c->details != NULL)
        fprintf(f, "\n%s\n", c->details);
    fprintf(f, "\noptions:\n");
    print_options(f, c->options, c->n_options, false);
    fprintf(f, "  %-*s%s\n", HELP_COLUMN - 2, "--help", "this text");
    if (c->config != NULL) {
        fprintf(f, "\nconfiguration keys (in the run file, or key=value on the command line):\n");
        print_options(f, c->config, c->n_config, true);
    }
    if (c->examples != NULL)
        fprintf(f, "\nexamples:\n%s\n", c->examples);
}

static void print_program_help(FILE *f, const struct program *p)
{
    fprintf(f, "usage: %s COMMAND [options] ...\n\n%s.\n\ncommands:\n", p->name, p->summary);
    for (size_t i = 0; i < p->n_commands; i++)
        fprintf(f, "  %-12s %s\n", p->commands[i].name, p->commands[i].summary);
    fprintf(f, "  %-12s %s\n", "man", "Print a manual page as roff: man [COMMAND]");
    fprintf(f, "\n'%s COMMAND --help' explains a command with examples.\n\nexit codes:\n%s\n",
            p->name, p->exit_codes);
}

/* --- manual pages ------------------------------------------------------------------------------
 */

static void roff_text(const char *text)
{
    bool line_start = true;
    for (; *text != '\0'; text++) {
        if (line_start && (*text == '.' || *text == '\''))
            fputs("\\&", stdout);
        if (*text == '-')
            fputs("\\-", stdout);
        else if (*text == '\\')
            fputs("\\\\", stdout);
        else
            putchar(*text);
        line_start = *text == '\n';
    }
}

static void roff_options(const struct opt *table, size_t n, bool is_config)
{
    struct buf text = {0};
    char label[160];
    for (size_t i = 0; i < n; i++) {
        option_label(label, sizeof label, &table[i], is_config);
        buf_clear(&text);
        option_text(&text, &table[i], is_config);
        printf(".TP\n.B ");
        roff_text(label);
        putchar('\n');
        if (!text.failed)
            roff_text((const char *)text.data);
        putchar('\n');
    }
    buf_free(&text);
}

static void roff_head(const struct program *p, const char *command, const char *summary)
{
    printf(".TH %s%s%s 1 \"\" \"%s %s\"\n.SH NAME\n%s%s%s \\- ", p->name, command[0] ? "-" : "",
           command, p->name, p->version, p->name, command[0] ? "-" : "", command);
    roff_text(summary);
    printf("\n.SH SYNOPSIS\n");
}

static void print_program_man(const struct program *p)
{
    roff_head(p, "", p->summary);
    printf(".B %s\nCOMMAND [options] ...\n.SH COMMANDS\n", p->name);
    for (size_t i = 0; i < p->n_commands; i++) {
        printf(".TP\n.BR %s\\-%s (1)\n", p->name, p->commands[i].name);
        roff_text(p->commands[i].summary);
        putchar('\n');
    }
    printf(".SH EXIT STATUS\n.nf\n");
    roff_text(p->exit_codes);
    printf("\n.fi\n");
}

static void print_command_man(const struct program *p, const struct command *c)
{
    roff_head(p, c->name, c->summary);
    printf(".B %s %s\n[options] ", p->name, c->name);
    roff_text(c->usage);
    putchar('\n');
    if (c->details != NULL) {
        printf(".SH DESCRIPTION\n");
        roff_text(c->details);
        putchar('\n');
    }
    printf(".SH OPTIONS\n");
    roff_options(c->options, c->n_options, false);
    if (c->config != NULL) {
        printf(".SH CONFIGURATION\n");
        roff_options(c->config, c->n_config, true);
    }
    if (c->examples != NULL) {
        printf(".SH EXAMPLES\n.nf\n");
        roff_text(c->examples);
        printf("\n.fi\n");
    }
    printf(".SH EXIT STATUS\n.nf\n");
    roff_text(p->exit_codes);
    printf("\n.fi\n.SH SEE ALSO\n.BR %s (1)\n", p->name);
}

static ft_status print_man(const struct program *p, int argc, char **argv, ft_error *err)
{
    if (argc == 0) {
        print_program_man(p);
        return FT_OK;
    }
    const struct command *c = find_command(p, argv[0]);
    if (c == NULL)
        return ft_fail(err, FT_EUSAGE, "man: there is no command '%s'", argv[0]);
    print_command_man(p, c);
    return FT_OK;
}

/* --- parsing -----------------------------------------------------------------------------------
 */

static ft_status parse_flag(struct opt_set *s, int *i, int argc, char **argv, ft_error *err)
{
    str rest = str_from(argv[*i] + 2), name = str_cut(&rest, '=');
    bool has_value = name.len < strlen(argv[*i] + 2);
    const struct opt *o = opt_find(s, name);
    if (o == NULL && str_starts(name, STR("no-"))) {
        o = opt_find(s, str_sub(name, 3, name.len));
        if (o != NULL && o->type == OPT_BOOL && !has_value)
            return opt_assign(s, o, STR("false"), err);
        o = NULL;
    }
    if (o == NULL)
        return opt_unknown(s, "option", name, err);
    if (o->type == OPT_BOOL && !has_value)
        return opt_assign(s, o, STR("true"), err);
    if (!has_value && *i + 1 == argc)
        return ft_fail(err, FT_EUSAGE, "--%s needs a value (%s)", o->name, o->help);
    str value = has_value ? rest : str_from(argv[++*i]);
    if (opt_assign(s, o, value, err) != FT_OK) {
        ft_error inner = *err;
        return ft_fail(err, inner.status, "--%s", inner.text);
    }
    return FT_OK;
}

static ft_status parse_arguments(struct opt_set *s, const struct command *c, const char **args,
                                 int *n_args, int argc, char **argv, ft_error *err)
{
    bool flags_end = false;
    for (int i = 0; i < argc; i++) {
        if (!flags_end && strcmp(argv[i], "--") == 0)
            flags_end = true;
        else if (!flags_end && strncmp(argv[i], "--", 2) == 0)
            FT_TRY(parse_flag(s, &i, argc, argv, err));
        else if (!flags_end && argv[i][0] == '-' && argv[i][1] != '\0')
            return ft_fail(err, FT_EUSAGE, "unknown option '%s'; options start with --", argv[i]);
        else
            args[(*n_args)++] = argv[i];
    }
    if (*n_args < c->min_args || (c->max_args >= 0 && *n_args > c->max_args))
        return ft_fail(err, FT_EUSAGE, "expected %s%s",
                       c->max_args == 0 ? "no arguments" : c->usage,
                       *n_args == 0 ? "" : ", got other arguments");
    return opt_check_required(s, "--", err);
}

static bool wants_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

static ft_status run_command(const struct command *c, int argc, char **argv, ft_error *err)
{
    struct opt_set set = {0};
    void *values = NULL;
    const char **args = NULL;
    int n_args = 0;
    ft_status st;
    FT_GOTO(mem_new(&values, 1, c->values_bytes, "options", err));
    FT_GOTO(mem_new(&args, (size_t)argc + 1, sizeof *args, "arguments", err));
    FT_GOTO(opt_set_init(&set, c->options, c->n_options, values, err));
    FT_GOTO(parse_arguments(&set, c, args, &n_args, argc, argv, err));
    st = c->run(values, n_args, args, err);
out:
    opt_set_destroy(&set);
    mem_free(args);
    mem_free(values);
    return st;
}

static ft_status dispatch(const struct program *p, int argc, char **argv, ft_error *err)
{
    const char *name = argc < 2 ? "--help" : argv[1];
    if (strcmp(name, "--version") == 0) {
        printf("%s %s\n", p->name, p->version);
        return FT_OK;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        const struct command *about = argc > 2 ? find_command(p, argv[2]) : NULL;
        if (about != NULL)
            print_command_help(stdout, p, about);
        else
            print_program_help(argc < 2 ? stderr : stdout, p);
        return argc < 2 ? ft_fail(err, FT_EUSAGE, "a command is needed") : FT_OK;
    }
    if (strcmp(name, "commands") == 0) { /* for scripts: installation, shell completion */
        for (size_t i = 0; i < p->n_commands; i++)
            puts(p->commands[i].name);
        return FT_OK;
    }
    if (strcmp(name, "man") == 0 && wants_help(argc - 2, argv + 2)) {
        print_program_help(stdout, p);
        return FT_OK;
    }
    if (strcmp(name, "man") == 0)
        return print_man(p, argc - 2, argv + 2, err);
    const struct command *c = find_command(p, name);
    if (c == NULL) {
        const char *names[64];
        for (size_t i = 0; i < p->n_commands; i++)
            names[i] = p->commands[i].name;
        const char *near = str_nearest(str_from(name), names, p->n_commands);
        return ft_fail(err, FT_EUSAGE, "unknown command '%s'; %s%s%s", name,
                       near == NULL ? "try --help" : "did you mean '", near == NULL ? "" : near,
                       near == NULL ? "" : "'?");
    }
    if (wants_help(argc - 2, argv + 2)) {
        print_command_help(stdout, p, c);
        return FT_OK;
    }
    ft_status st = run_command(c, argc - 2, argv + 2, err);
    if (st == FT_EUSAGE) {
        ft_error inner = *err;
        return ft_fail(err, FT_EUSAGE, "%s: %s (see '%s %s --help')", c->name, inner.text, p->name,
                       c->name);
    }
    return st == FT_OK ? FT_OK : ft_wrap(err, "%s", c->name);
}

int program_main(const struct program *p, int argc, char **argv)
{
    ft_error err = {0};
    log_init(p->name);
    fault_init_from_env();
    ft_status st = dispatch(p, argc, argv, &err);
    /* A full disk or a closed pipe behind stdout must not look like success. */
    if (st == FT_OK && (fflush(stdout) != 0 || ferror(stdout)))
        st = ft_fail_errno(&err, "cannot write to standard output");
    if (st == FT_ESTOP) /* what was asked for is no error */
        log_info("%s", err.text);
    else if (st != FT_OK)
        log_error("%s", err.text);
    return ft_exit_code(st);
}
