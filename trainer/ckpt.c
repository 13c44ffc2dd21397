/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/ckpt.h"

#include <inttypes.h>
#include <string.h>

#include "common/file.h"
#include "common/log.h"

/* --- saving ---------------------------------------------------------------------------------- */

static ft_status write_config(const char *dir, struct arena *a, const struct run_config *c,
                              ft_error *err)
{
    struct buf b = {0};
    const char *path = path_join(a, dir, "config.json");
    ft_status st =
        path == NULL ? ft_fail_memory(err, strlen(dir), "a path") : run_config_json(&b, c, err);
    if (st == FT_OK)
        st = file_publish(path, b.data, b.len, err);
    buf_free(&b);
    return st;
}

/* Keeps the newest ones and the best. */
static ft_status prune(const struct ckpt_run *r, const struct checkpoint_state *state,
                       struct arena *a, ft_error *err)
{
    const struct train_options *o = &r->config->values;
    const char *parent = r->dir->checkpoints;
    int64_t *steps;
    size_t n, keep = (size_t)o->checkpoint.keep;
    FT_TRY(checkpoint_list(&steps, &n, a, parent, err));
    for (size_t i = 0; i + keep < n; i++)
        if (!o->checkpoint.best || steps[i] != state->best_step)
            FT_TRY(checkpoint_remove(parent, steps[i], err));
    return FT_OK;
}

ft_status ckpt_save(const struct ckpt_run *r, const struct checkpoint_state *state, ft_error *err)
{
    struct arena a = {0};
    const char *dir, *parent = r->dir->checkpoints;
    const struct model_params *params = model_params(r->model);
    ft_status st;
    FT_GOTO(dir_create(parent, err));
    FT_GOTO(checkpoint_begin(&dir, &a, parent, state->step, err));
    FT_GOTO(adapter_save(dir, &r->inputs->adapter, nf4_file_config(r->inputs->base),
                         model_adapter_pairs(r->model), err));
    FT_GOTO(checkpoint_write_moments(dir, r->optim->m, r->optim->v, params->n, err));
    FT_GOTO(checkpoint_write_state(dir, state, err));
    FT_GOTO(write_config(dir, &a, r->config, err));
    FT_GOTO(checkpoint_commit(parent, state->step, err));
    FT_GOTO(prune(r, state, &a, err));
out:
    arena_destroy(&a);
    return st == FT_OK ? FT_OK : ft_wrap(err, "checkpoint of step %" PRId64, state->step);
}

/* --- choosing -------------------------------------------------------------------------------- */

/* NULL when there is none at all; when there are only damaged ones that is an error. */
static ft_status newest_whole(const char **path, struct arena *a, const char *parent, ft_error *err)
{
    int64_t *steps;
    size_t n;
    *path = NULL;
    FT_TRY(checkpoint_list(&steps, &n, a, parent, err));
    bool any = n > 0;
    while (n > 0) {
        const char *candidate = checkpoint_path(a, parent, steps[--n]);
        if (candidate == NULL)
            return ft_fail_memory(err, strlen(parent), "a path");
        ft_status st = checkpoint_verify(candidate, err);
        if (st == FT_OK) {
            *path = candidate;
            return FT_OK;
        }
        if (st != FT_EFORMAT && st != FT_EIO)
            return st;
        log_warn("skipping a checkpoint: %s", err->text);
    }
    return any ? ft_fail(err, FT_ESTATE,
                         "%s: every checkpoint is damaged; remove the directory to start over",
                         parent)
               : FT_OK;
}

static ft_status choose_auto(const char **path, struct arena *a, const struct run_dir *dir,
                             ft_error *err)
{
    FT_TRY(newest_whole(path, a, dir->checkpoints, err));
    if (*path == NULL && path_exists(dir->summary))
        return ft_fail(err, FT_ESTATE,
                       "%s holds a finished run without a usable checkpoint; choose another "
                       "run.dir, or remove the directory",
                       dir->path);
    return FT_OK;
}

static ft_status choose_never(struct arena *a, const struct run_dir *dir, ft_error *err)
{
    int64_t *steps;
    size_t n;
    FT_TRY(checkpoint_list(&steps, &n, a, dir->checkpoints, err));
    if (n > 0 || path_exists(dir->summary))
        return ft_fail(err, FT_ESTATE,
                       "run.resume is never, but %s already holds a run; choose another run.dir, "
                       "or remove the directory",
                       dir->path);
    return FT_OK;
}

/* A given checkpoint may lie in another run. In this run nothing may be newer: going on from the
 * middle would mix two histories. */
static ft_status check_chosen(const char *path, struct arena *a, const struct run_dir *dir,
                              ft_error *err)
{
    struct checkpoint_state state;
    int64_t *steps;
    size_t n;
    if (!path_is_dir(path))
        return ft_fail(err, FT_EUSAGE,
                       "run.resume: there is no directory %s; expected auto, never, or the path of "
                       "a checkpoint, e.g. RUN/checkpoints/step_100",
                       path);
    FT_TRY(checkpoint_verify(path, err));
    FT_TRY(checkpoint_read_state(&state, path, err));
    FT_TRY(checkpoint_list(&steps, &n, a, dir->checkpoints, err));
    if (n > 0 && steps[n - 1] > state.step)
        return ft_fail(err, FT_ESTATE,
                       "run.resume is step %" PRId64 ", but %s already holds step %" PRId64
                       "; choose another run.dir, or remove the later checkpoints",
                       state.step, dir->path, steps[n - 1]);
    return FT_OK;
}

ft_status ckpt_choose(const char **path, struct arena *a, const char *resume,
                      const struct run_dir *dir, ft_error *err)
{
    *path = NULL;
    if (strcmp(resume, "auto") == 0)
        return choose_auto(path, a, dir, err);
    if (strcmp(resume, "never") == 0)
        return choose_never(a, dir, err);
    *path = resume;
    return check_chosen(resume, a, dir, err);
}

/* --- going on -------------------------------------------------------------------------------- */

static ft_status check_fingerprint(const char *what, const char *now_path, hash128 now,
                                   hash128 saved, const char *path, ft_error *err)
{
    char now_hex[HASH_HEX_LEN + 1], saved_hex[HASH_HEX_LEN + 1];
    if (hash128_eq(now, saved))
        return FT_OK;
    hash128_hex(now_hex, now);
    hash128_hex(saved_hex, saved);
    return ft_fail(err, FT_ESTATE,
                   "%s was made with another %s: %s there, %s is %s; use the old one, or another "
                   "run.dir for a new run",
                   path, what, saved_hex, now_path, now_hex);
}

static ft_status check_config(const char *path, const struct run_config *config, ft_error *err)
{
    struct arena a = {0};
    struct run_config saved = {0};
    const char *file = path_join(&a, path, "config.json");
    ft_status st;
    if (file == NULL) {
        st = ft_fail_memory(err, strlen(path), "a path");
        goto out;
    }
    FT_GOTO(run_config_load(&saved, file, NULL, 0, err));
    FT_GOTO(run_config_check_same(config, &saved, file, err));
out:
    run_config_close(&saved);
    arena_destroy(&a);
    return st;
}

ft_status ckpt_check(struct checkpoint_state *out, const char *path,
                     const struct run_config *config, const struct inputs *in, ft_error *err)
{
    const struct train_options *o = &config->values;
    FT_TRY(checkpoint_read_state(out, path, err));
    FT_TRY(check_fingerprint("base model", o->base.path, nf4_file_fingerprint(in->base), out->base,
                             path, err));
    FT_TRY(check_fingerprint("data set", o->data.path, dataset_fingerprint(in->data), out->data,
                             path, err));
    return check_config(path, config, err);
}

static ft_status remove_later(const char *parent, int64_t step, ft_error *err)
{
    struct arena a = {0};
    int64_t *steps;
    size_t n;
    ft_status st = checkpoint_list(&steps, &n, &a, parent, err);
    while (st == FT_OK && n > 0 && steps[n - 1] > step)
        st = checkpoint_remove(parent, steps[--n], err);
    arena_destroy(&a);
    return st;
}

ft_status ckpt_restore(const struct ckpt_run *r, const struct checkpoint_state *state,
                       const char *path, ft_error *err)
{
    struct optim *o = r->optim;
    if (o->params->n != state->n_params)
        return ft_fail(err, FT_EFORMAT, "%s holds %" PRId64 " parameters, the adapter has %" PRId64,
                       path, state->n_params, o->params->n);
    FT_TRY(adapter_load(model_adapter_pairs(r->model), path, &r->inputs->adapter,
                        nf4_file_config(r->inputs->base), err));
    FT_TRY(checkpoint_read_moments(o->m, o->v, o->params->n, path, err));
    o->updates = state->updates;
    return remove_later(r->dir->checkpoints, state->step, err);
}
