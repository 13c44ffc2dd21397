/* SPDX-License-Identifier: Apache-2.0
 * The training loop. Between two steps stand the duties of the step just reached (evaluation,
 * sample answers, checkpoint); the state records which are done, so that a run stopped or killed
 * anywhere goes on with the first one that is not. */
#include "trainer/train.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/file.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/rng.h"
#include "trainer/ckpt.h"
#include "trainer/comm.h"
#include "trainer/memory_report.h"
#include "trainer/metrics.h"
#include "trainer/samples.h"
#include "trainer/schedule.h"
#include "trainer/signals.h"
#include "trainer/summary.h"

struct train {
    struct run_config *config;
    const struct train_options *o; /* config->values */
    struct inputs in;
    struct samples samples;
    struct model_options model_options;

    struct run_dir dir;
    struct comm comm;
    struct backend *be;
    struct model *model;
    struct optim optim;
    struct loader *loader;
    struct schedule schedule;
    struct metrics metrics;

    struct checkpoint_state state;
    int64_t tokens_before; /* state.tokens and .seconds when this process began */
    double seconds_before;
    bool saved; /* the newest checkpoint equals the state */
    struct progress progress;
    double seconds_to_ready, seconds_to_first_step;
};

/* --- collectives: the only ones of a run, the same calls in the same order on every rank --------
 */

/* True on every rank when a stop was requested on any. Before each step. */
static ft_status vote_to_stop(bool *stop, struct train *t, ft_error *err)
{
    double votes = signals_stop_requested() != 0;
    comm_sum_f64(&t->comm, &votes, 1);
    *stop = votes > 0;
    return comm_status(&t->comm, err);
}

/* Gradients and loss of the global batch. Once per step. */
static ft_status reduce_step(struct train *t, double *loss_sum, ft_error *err)
{
    const struct model_params *p = t->optim.params;
    comm_sum_f32(&t->comm, p->gradients, p->n);
    comm_sum_f64(&t->comm, loss_sum, 1);
    return comm_status(&t->comm, err);
}

struct eval_sums {
    double loss, targets, interrupted;
};

/* Once per evaluation. */
static ft_status reduce_eval(struct train *t, struct eval_sums *s, ft_error *err)
{
    double v[3] = {s->loss, s->targets, s->interrupted};
    comm_sum_f64(&t->comm, v, 3);
    *s = (struct eval_sums){v[0], v[1], v[2]};
    return comm_status(&t->comm, err);
}

/* --- a step ---------------------------------------------------------------------------------- */

/* Never 0, which the model takes as "no dropout". */
static uint64_t dropout_key(const struct train *t, int64_t step, int64_t micro)
{
    static const uint64_t stream = UINT64_C(0xD809) << 48;
    uint64_t counter = (uint64_t)step * (uint64_t)t->o->batch.accumulate + (uint64_t)micro;
    return t->o->lora.dropout > 0 ? rng_u64(t->in.loader.seed, stream, counter) | 1 : 0;
}

/* Adds the gradients of loss / N over this rank's micro-batches; N is that of the global batch. */
static ft_status accumulate_gradients(double *loss_sum, struct train *t,
                                      const struct step_batch *batch, ft_error *err)
{
    for (int64_t i = t->comm.rank; i < batch->n_micro; i += t->comm.world) {
        struct micro_batch micro;
        FT_TRY(loader_read(&micro, t->loader, i, err));
        *loss_sum += model_train_step(t->model, &micro, 1 / (double)batch->n_trained,
                                      dropout_key(t, t->state.step, i));
    }
    return backend_sync(t->be, err);
}

/* "a.jsonl:3, b.jsonl:17, ..." into dst. */
static void list_rows(char *dst, size_t cap, const struct train *t, const struct step_batch *batch)
{
    size_t n = 0;
    dst[0] = '\0';
    for (int64_t i = 0; i < batch->n_samples && n + 1 < cap; i++) {
        struct sample_info s = dataset_sample_info(t->in.data, SPLIT_TRAIN, batch->samples[i]);
        n += (size_t)snprintf(dst + n, cap - n, "%s%s:%" PRIu64, i == 0 ? "" : ", ",
                              path_base(dataset_source_path(t->in.data, s.source)), s.row + 1);
    }
}

/* The weights are still those of the step before, but what follows would be garbage: nothing more
 * is saved. */
static ft_status refuse_nonfinite(const struct train *t, const struct step_batch *batch,
                                  double loss, double norm, ft_error *err)
{
    char rows[640];
    list_rows(rows, sizeof rows, t, batch);
    return ft_fail(err, FT_ESTATE,
                   "step %" PRId64 ": loss %g, gradient norm %g; lower optimizer.lr (%g here) or "
                   "look at its samples: %s",
                   t->state.step + 1, loss, norm, schedule_lr(&t->schedule, t->state.step), rows);
}

static ft_status record_step(struct train *t, const struct step_batch *batch, double loss,
                             double norm, double seconds, ft_error *err)
{
    struct checkpoint_state *s = &t->state;
    const struct step_record r = {
        .step = s->step + 1,
        .epoch = (double)(s->step + 1) / (double)t->in.shape.steps_per_epoch,
        .loss = loss,
        .lr = schedule_lr(&t->schedule, s->step),
        .grad_norm = norm,
        .tokens = batch->n_tokens,
        .trained_tokens = batch->n_trained,
        .seconds = seconds,
    };
    s->step++;
    s->updates = t->optim.updates;
    s->tokens += batch->n_tokens;
    s->trained_tokens += batch->n_trained;
    s->seconds += seconds;
    if (batch->n_trained > 0)
        s->train_loss = loss;
    t->saved = false;
    return metrics_step(&t->metrics, &r, err);
}

static void show_progress(struct train *t, const struct step_batch *batch, double seconds)
{
    char note[96];
    if (t->seconds_to_first_step == 0) {
        t->seconds_to_first_step = clock_since_exec();
        log_info("first step done %.2f s after the start: loss %.4f", t->seconds_to_first_step,
                 t->state.train_loss);
    }
    snprintf(note, sizeof note, "loss %.4f, %.0f tokens/s", t->state.train_loss,
             (double)batch->n_tokens / seconds);
    progress_update(&t->progress, (double)t->state.step, note);
}

static ft_status train_step(struct train *t, ft_error *err)
{
    double started = clock_seconds(), loss_sum = 0, loss = 0, norm = 0;
    struct step_batch batch;
    FT_TRY(loader_seek(&batch, t->loader, t->state.step, err));
    optim_zero_gradients(&t->optim);
    if (batch.n_trained > 0)
        FT_TRY(accumulate_gradients(&loss_sum, t, &batch, err));
    FT_TRY(reduce_step(t, &loss_sum, err));
    if (batch.n_trained > 0) {
        loss = loss_sum / (double)batch.n_trained;
        FT_TRY(optim_gradient_norm(&norm, &t->optim, err));
        if (!isfinite(loss) || !isfinite(norm))
            return refuse_nonfinite(t, &batch, loss, norm, err);
        FT_TRY(optim_step(&t->optim, t->o, schedule_lr(&t->schedule, t->state.step), norm, err));
    } else {
        log_warn("step %" PRId64 ": no trained token in its %" PRId64 " samples; the weights stay "
                 "as they are",
                 t->state.step + 1, batch.n_samples);
    }
    double seconds = clock_seconds() - started;
    FT_TRY(record_step(t, &batch, loss, norm, seconds, err));
    show_progress(t, &batch, seconds);
    return FT_OK;
}

/* --- duties ---------------------------------------------------------------------------------- */

static bool due(const struct train *t, int64_t every)
{
    int64_t step = t->state.step;
    return step == t->in.total_steps || (every > 0 && step % every == 0);
}

/* Before the first step too. */
static bool due_from_start(const struct train *t, int64_t every)
{
    return t->state.step == 0 || due(t, every);
}

/* This rank's share of the eval split, up to a request to stop. */
static ft_status sum_eval(struct eval_sums *s, struct train *t, ft_error *err)
{
    struct progress p;
    uint64_t next = 0;
    progress_start(&p, "evaluating", "samples", (double)t->in.n_eval);
    for (int64_t i = 0; next < t->in.n_eval && s->interrupted == 0; i++) {
        struct micro_batch micro;
        int64_t n_trained;
        FT_TRY(loader_read_eval(&micro, &n_trained, t->loader, &next, t->in.n_eval, err));
        if (i % t->comm.world != t->comm.rank)
            continue;
        if (n_trained > 0)
            s->loss += model_eval_loss(t->model, &micro);
        s->targets += (double)n_trained;
        s->interrupted = signals_stop_requested() != 0;
        progress_update(&p, (double)next, "");
    }
    return backend_sync(t->be, err);
}

static void note_eval(struct train *t, double loss)
{
    struct checkpoint_state *s = &t->state;
    if (s->eval_step < 0)
        s->first_eval_loss = loss;
    s->eval_step = s->step;
    s->eval_loss = loss;
    /* Step 0 is the base model: there is nothing to keep of it. */
    if (s->step > 0 && (s->best_step < 0 || loss < s->best_eval_loss)) {
        s->best_step = s->step;
        s->best_eval_loss = loss;
    }
    t->saved = false;
}

static ft_status evaluate(struct train *t, ft_error *err)
{
    struct eval_sums sums = {0};
    double started = clock_seconds();
    FT_TRY(sum_eval(&sums, t, err));
    FT_TRY(reduce_eval(t, &sums, err));
    if (sums.interrupted > 0)
        return FT_OK;
    double loss = sums.loss / sums.targets, seconds = clock_seconds() - started;
    if (!isfinite(loss))
        return ft_fail(err, FT_ESTATE,
                       "step %" PRId64 ": the evaluation loss is %g over %.0f "
                       "trained tokens",
                       t->state.step, loss, sums.targets);
    note_eval(t, loss);
    log_info("evaluation at step %" PRId64 ": loss %.4f (%.1f s)%s", t->state.step, loss, seconds,
             t->state.best_step == t->state.step ? ", best so far" : "");
    FT_TRY(metrics_eval(&t->metrics, t->state.step, loss, (int64_t)sums.targets, seconds, err));
    return metrics_draw(&t->metrics, t->dir.picture, err);
}

static ft_status answer_samples(struct train *t, ft_error *err)
{
    bool done;
    FT_TRY(samples_answer(&done, &t->samples, t->model, t->be, t->state.step, err));
    if (done) {
        t->state.sample_step = t->state.step;
        t->saved = false;
    }
    return FT_OK;
}

static ft_status save(struct train *t, ft_error *err)
{
    const struct ckpt_run run = {t->config, &t->in, &t->dir, t->model, &t->optim};
    if (t->comm.rank != 0)
        return FT_OK;
    /* The history must not be older than the checkpoint that continues it. */
    FT_TRY(metrics_sync(&t->metrics, err));
    FT_TRY(ckpt_save(&run, &t->state, err));
    t->saved = true;
    return FT_OK;
}

static bool checkpoint_due(const struct train *t)
{
    const struct checkpoint_state *s = &t->state;
    bool is_best = t->o->checkpoint.best && s->best_step == s->step && s->step > 0;
    return s->step == t->in.total_steps || is_best ||
           (s->step > 0 && due(t, t->o->checkpoint.every));
}

static ft_status do_duties(struct train *t, ft_error *err)
{
    const struct checkpoint_state *s = &t->state;
    if (t->in.n_eval > 0 && s->eval_step != s->step && due_from_start(t, t->o->eval.every))
        FT_TRY(evaluate(t, err));
    if (t->samples.prompts != NULL && s->sample_step != s->step &&
        due_from_start(t, t->o->sample.every))
        FT_TRY(answer_samples(t, err));
    bool stopping = signals_stop_requested() != 0; /* saved by the caller, duties cut short */
    return checkpoint_due(t) && !t->saved && !stopping ? save(t, err) : FT_OK;
}

static ft_status stop(struct train *t, ft_error *err)
{
    if (!t->saved)
        FT_TRY(save(t, err));
    return ft_fail(err, FT_ESTOP,
                   "stopped on %s after step %" PRId64 " of %" PRId64 "; everything is saved in "
                   "%s, the same command goes on",
                   signals_name(signals_stop_requested()), t->state.step, t->in.total_steps,
                   t->dir.checkpoints);
}

static ft_status run_steps(struct train *t, ft_error *err)
{
    progress_start(&t->progress, "training", "steps", (double)t->in.total_steps);
    t->progress.started -= t->state.seconds; /* the rate counts the steps before a resume */
    for (;;) {
        bool stop_requested;
        FT_TRY(do_duties(t, err));
        FT_TRY(vote_to_stop(&stop_requested, t, err));
        if (stop_requested)
            return stop(t, err);
        if (t->state.step >= t->in.total_steps)
            break;
        FT_TRY(train_step(t, err));
    }
    progress_finish(&t->progress, (double)t->state.step, "");
    return FT_OK;
}

/* --- setting up ------------------------------------------------------------------------------ */

static ft_status check_context(const struct train *t, ft_error *err)
{
    int64_t context = samples_context(&t->samples);
    int64_t positions = nf4_file_config(t->in.base)->max_positions;
    if (context > positions)
        return ft_fail(err, FT_EUSAGE,
                       "sample.max_tokens: the longest prompt and its answer take %" PRId64
                       " tokens, the model handles %" PRId64,
                       context, positions);
    return FT_OK;
}

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

static void describe(const struct train *t)
{
    const struct split_info *train = dataset_split(t->in.data, SPLIT_TRAIN);
    const struct model_config *model = nf4_file_config(t->in.base);
    const struct loader_options *l = &t->in.loader;
    log_info("base: %s, %s with %" PRId64 " layers of %" PRId64, t->in.adapter.base_name,
             model->architecture, model->n_layers, model->hidden);
    log_info("data: %" PRIu64 " sample%s, %" PRIu64 " tokens (%" PRIu64 " trained), %" PRIu64
             " for evaluation",
             train->n_samples, plural((int64_t)train->n_samples), train->n_tokens, train->n_trained,
             t->in.n_eval);
    log_info("run: %" PRId64 " step%s (%" PRId64 " per epoch) of %" PRId64 " x %" PRId64
             " %s%s, %d thread%s",
             t->in.total_steps, plural(t->in.total_steps), t->in.shape.steps_per_epoch,
             l->accumulate, l->micro, l->mode == BATCH_PACKED ? "packed bin" : "sample",
             plural(l->accumulate * l->micro), t->in.n_threads, plural(t->in.n_threads));
}

/* Everything that can be wrong is found here, before anything is allocated or written. */
static ft_status prepare(struct train *t, struct run_config *c, ft_error *err)
{
    *t = (struct train){.config = c, .o = &c->values};
    FT_TRY(backend_check_name(t->o->backend.name, err));
    FT_TRY(inputs_open(&t->in, c, err));
    FT_TRY(samples_open(&t->samples, t->o, dataset_manifest(t->in.data), err));
    FT_TRY(check_context(t, err));
    t->model_options = (struct model_options){
        .adapter = &t->in.adapter,
        .max_tokens = t->in.shape.max_tokens,
        .max_context = samples_context(&t->samples),
        .training = true,
        .recompute = t->o->memory.recompute,
    };
    describe(t);
    return memory_report(&t->in, t->o, &t->model_options, err);
}

static ft_status write_config(const struct train *t, ft_error *err)
{
    struct buf b = {0};
    ft_status st = run_config_json(&b, t->config, err);
    if (st == FT_OK)
        st = file_publish(t->dir.config, b.data, b.len, err);
    buf_free(&b);
    return st;
}

/* Decides where the run begins; *from is NULL for the beginning. Reads only. */
static ft_status choose_start(const char **from, struct train *t, ft_error *err)
{
    FT_TRY(ckpt_choose(from, &t->dir.arena, t->o->run.resume, &t->dir, err));
    t->state = (struct checkpoint_state){
        .eval_step = -1,
        .best_step = -1,
        .sample_step = -1,
        .base = nf4_file_fingerprint(t->in.base),
        .data = dataset_fingerprint(t->in.data),
    };
    if (*from != NULL)
        FT_TRY(ckpt_check(&t->state, *from, t->config, &t->in, err));
    if (t->state.step >= t->in.total_steps && path_exists(t->dir.summary))
        return ft_fail(err, FT_ESTATE,
                       "%s is a finished run of %" PRId64 " steps, its adapter is in %s; choose "
                       "another run.dir to train again",
                       t->dir.path, t->state.step, t->dir.adapter);
    return FT_OK;
}

static ft_status enter_directory(const char **from, struct train *t, ft_error *err)
{
    FT_TRY(run_dir_open(&t->dir, t->o->run.dir, err));
    FT_TRY(checkpoint_clean(t->dir.checkpoints, err));
    FT_TRY(choose_start(from, t, err));
    return write_config(t, err);
}

static ft_status open_backend(struct train *t, ft_error *err)
{
    const struct backend_options options = {t->in.n_threads,
                                            (enum matmul_kind)t->o->backend.matmul};
    FT_TRY(comm_open(&t->comm, "self", err));
    FT_TRY(backend_open(&t->be, t->o->backend.name, &options, err));
    FT_TRY(model_create(&t->model, t->be, t->in.base, &t->model_options, err));
    FT_TRY(optim_open(&t->optim, t->be, model_params(t->model), err));
    return loader_create(&t->loader, t->in.data, &t->in.loader, err);
}

static ft_status begin_adapter(struct train *t, ft_error *err)
{
    if (t->o->lora.init != NULL)
        return adapter_load(model_adapter_pairs(t->model), t->o->lora.init, &t->in.adapter,
                            nf4_file_config(t->in.base), err);
    model_init_adapter(t->model, t->in.loader.seed);
    return FT_OK;
}

static ft_status begin_or_resume(struct train *t, const char *from, ft_error *err)
{
    const struct ckpt_run run = {t->config, &t->in, &t->dir, t->model, &t->optim};
    const int64_t keep_step = from == NULL ? -1 : t->state.step;
    schedule_init(&t->schedule, t->o, opt_given(&t->config->set, "schedule.warmup_steps"),
                  t->in.total_steps);
    if (from != NULL) {
        FT_TRY(ckpt_restore(&run, &t->state, from, err));
        log_info("going on after step %" PRId64 " from %s", t->state.step, from);
        t->saved = true;
        t->tokens_before = t->state.tokens;
        t->seconds_before = t->state.seconds;
    } else {
        FT_TRY(begin_adapter(t, err));
        t->state.n_params = t->optim.params->n;
    }
    FT_TRY(backend_sync(t->be, err));
    FT_TRY(metrics_open(&t->metrics, t->dir.metrics, keep_step, t->state.eval_step, err));
    return samples_start(&t->samples, t->dir.samples, t->state.sample_step,
                         nf4_file_config(t->in.base)->vocab, err);
}

/* --- the end --------------------------------------------------------------------------------- */

static bool best_is_kept(const struct train *t)
{
    struct arena a = {0};
    const char *path = checkpoint_path(&a, t->dir.checkpoints, t->state.best_step);
    bool kept = t->state.best_step >= 0 && path != NULL && path_is_dir(path);
    arena_destroy(&a);
    return kept;
}

static ft_status finish(struct train *t, ft_error *err)
{
    const struct model_params *p = t->optim.params;
    if (t->comm.rank != 0)
        return FT_OK;
    FT_TRY(adapter_save(t->dir.adapter, &t->in.adapter, nf4_file_config(t->in.base),
                        model_adapter_pairs(t->model), err));
    FT_TRY(metrics_draw(&t->metrics, t->dir.picture, err));
    const struct summary summary = {
        .state = &t->state,
        .epochs = (double)t->state.step / (double)t->in.shape.steps_per_epoch,
        .session_tokens = t->state.tokens - t->tokens_before,
        .session_seconds = t->state.seconds - t->seconds_before,
        .seconds_to_ready = t->seconds_to_ready,
        .seconds_to_first_step = t->seconds_to_first_step,
        .wall_seconds = clock_since_exec(),
        .peak_memory = mem_peak_rss(),
        .adapter = hash128_of(p->values, (size_t)p->n * sizeof *p->values),
        .best_is_kept = best_is_kept(t),
    };
    FT_TRY(summary_write(&summary, &t->dir, err));
    summary_print(&summary, &t->dir);
    return FT_OK;
}

static void tear_down(struct train *t)
{
    metrics_close(&t->metrics);
    samples_close(&t->samples);
    loader_destroy(t->loader);
    optim_close(&t->optim);
    model_destroy(t->model);
    backend_close(t->be);
    comm_close(&t->comm);
    run_dir_close(&t->dir);
    inputs_close(&t->in);
}

static ft_status train_all(struct train *t, struct run_config *c, ft_error *err)
{
    const char *from;
    FT_TRY(prepare(t, c, err));
    signals_install();
    FT_TRY(enter_directory(&from, t, err));
    FT_TRY(open_backend(t, err));
    FT_TRY(begin_or_resume(t, from, err));
    t->seconds_to_ready = clock_since_exec();
    log_info("ready %.2f s after the start", t->seconds_to_ready);
    FT_TRY(run_steps(t, err));
    return finish(t, err);
}

ft_status train_run(struct run_config *c, ft_error *err)
{
    struct train t;
    ft_status st = train_all(&t, c, err);
    tear_down(&t);
    return st;
}

ft_status train_check(struct run_config *c, ft_error *err)
{
    struct train t;
    const char *from;
    ft_status st;
    FT_GOTO(prepare(&t, c, err));
    FT_GOTO(run_dir_probe(&t.dir, t.o->run.dir, err));
    FT_GOTO(choose_start(&from, &t, err));
    if (from != NULL)
        log_info("it would go on after step %" PRId64 " from %s", t.state.step, from);
out:
    tear_down(&t);
    return st;
}
