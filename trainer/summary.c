/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/summary.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "common/file.h"
#include "common/log.h"
#include "trainer/metrics.h"

/* Of this process: a resumed run may have begun on another machine. */
static double tokens_per_second(const struct summary *s)
{
    return s->session_seconds > 0 ? (double)s->session_tokens / s->session_seconds : 0;
}

static void number(struct buf *b, const char *name, double v)
{
    buf_printf(b, ",\n  \"%s\": ", name);
    metrics_number(b, v);
}

static void count(struct buf *b, const char *name, int64_t v)
{
    buf_printf(b, ",\n  \"%s\": %" PRId64, name, v);
}

/* Evaluation values are null in a run without one. */
static double if_step(int64_t step, double v)
{
    return step >= 0 ? v : (double)NAN;
}

ft_status summary_write(const struct summary *s, const struct run_dir *dir, ft_error *err)
{
    const struct checkpoint_state *t = s->state;
    char hex[HASH_HEX_LEN + 1];
    struct buf b = {0};
    hash128_hex(hex, s->adapter);
    buf_printf(&b, "{\n  \"steps\": %" PRId64, t->step);
    number(&b, "epochs", s->epochs);
    count(&b, "tokens", t->tokens);
    count(&b, "trained_tokens", t->trained_tokens);
    number(&b, "final_loss", t->train_loss);
    number(&b, "first_eval_loss", if_step(t->eval_step, t->first_eval_loss));
    number(&b, "final_eval_loss", if_step(t->eval_step, t->eval_loss));
    number(&b, "best_eval_loss", if_step(t->best_step, t->best_eval_loss));
    number(&b, "best_step", if_step(t->best_step, (double)t->best_step));
    number(&b, "tokens_per_s", tokens_per_second(s));
    number(&b, "train_seconds", t->seconds);
    number(&b, "wall_seconds", s->wall_seconds);
    number(&b, "seconds_to_ready", s->seconds_to_ready);
    number(&b, "seconds_to_first_step", s->seconds_to_first_step);
    count(&b, "peak_memory_bytes", (int64_t)s->peak_memory);
    count(&b, "adapter_values", t->n_params);
    buf_printf(&b, ",\n  \"adapter_xxh128\": \"%s\"\n}\n", hex);
    ft_status st = buf_status(&b, "the summary", err);
    if (st == FT_OK)
        st = file_publish(dir->summary, b.data, b.len, err);
    buf_free(&b);
    return st;
}

void summary_print(const struct summary *s, const struct run_dir *dir)
{
    const struct checkpoint_state *t = s->state;
    char wall[32], memory[32], hex[HASH_HEX_LEN + 1];
    hash128_hex(hex, s->adapter);
    printf("steps       %" PRId64 " (%.2f epochs), %" PRId64 " tokens, loss %.4f\n", t->step,
           s->epochs, t->tokens, t->train_loss);
    if (t->eval_step >= 0)
        printf("evaluation  %.4f before, %.4f after", t->first_eval_loss, t->eval_loss);
    if (t->best_step >= 0)
        printf(", best %.4f at step %" PRId64, t->best_eval_loss, t->best_step);
    if (t->eval_step >= 0)
        printf("\n");
    printf("speed       %.0f tokens/s, %s%s, peak memory %s\n", tokens_per_second(s),
           format_duration(wall, s->wall_seconds),
           s->session_tokens < t->tokens ? " since the resume" : " in all",
           format_bytes(memory, (double)s->peak_memory));
    printf("adapter     %s (xxh128 %s)\n", dir->adapter, hex);
    if (s->best_is_kept)
        printf("best        %s/step_%" PRId64 "\n", dir->checkpoints, t->best_step);
    printf("loss        %s, %s\n", dir->picture, dir->metrics);
}
