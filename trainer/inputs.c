/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/inputs.h"

#include <inttypes.h>
#include <math.h>

#include "common/cpu.h"

static ft_status check_vocabulary(const struct inputs *in, const struct train_options *o,
                                  ft_error *err)
{
    hash128 of_base = nf4_file_tokenizer_fingerprint(in->base);
    hash128 of_data = dataset_tokenizer_fingerprint(in->data);
    int64_t vocab = nf4_file_config(in->base)->vocab;
    char base[HASH_HEX_LEN + 1], data[HASH_HEX_LEN + 1];
    hash128_hex(base, of_base);
    hash128_hex(data, of_data);
    if (!hash128_eq(of_base, (hash128){0, 0}) && !hash128_eq(of_base, of_data))
        return ft_fail(err, FT_EFORMAT,
                       "%s was tokenised with the vocabulary of another model: its tokenizer is "
                       "%s, that of %s (%s) is %s; build the data set with the tokenizer of this "
                       "model",
                       o->data.path, data, o->base.path, in->adapter.base_name, base);
    if (dataset_vocab(in->data) > vocab)
        return ft_fail(err, FT_EFORMAT,
                       "%s was tokenised with %" PRId64 " ids, but %s (%s) has a vocabulary of "
                       "%" PRId64 "; build the data set with the tokenizer of this model",
                       o->data.path, dataset_vocab(in->data), o->base.path, in->adapter.base_name,
                       vocab);
    return FT_OK;
}

static ft_status check_lengths(const struct inputs *in, const struct train_options *o,
                               ft_error *err)
{
    const struct model_config *model = nf4_file_config(in->base);
    int64_t longest = FT_MAX(dataset_split(in->data, SPLIT_TRAIN)->longest,
                             dataset_split(in->data, SPLIT_EVAL)->longest);
    int64_t limit = model->max_positions;
    if (model->sliding_window > 0)
        limit = FT_MIN(limit, model->sliding_window);
    if (longest > limit)
        return ft_fail(err, FT_EFORMAT,
                       "%s holds samples of up to %" PRId64 " tokens, %s handles %" PRId64
                       "; build the data set with --max-length %" PRId64,
                       o->data.path, longest, o->base.path, limit, limit);
    return FT_OK;
}

/* Keys about evaluation are refused when there is nothing to evaluate. */
static ft_status check_eval(struct inputs *in, struct run_config *c, ft_error *err)
{
    uint64_t n = dataset_split(in->data, SPLIT_EVAL)->n_samples;
    uint64_t limit = (uint64_t)c->values.eval.max_samples;
    in->n_eval = limit == 0 ? n : FT_MIN(n, limit);
    c->values.no_eval_split = n == 0;
    return train_options_check(&c->values, &c->set, err);
}

static ft_status count_steps(struct inputs *in, const struct train_options *o, ft_error *err)
{
    double steps = ceil(o->train.epochs * (double)in->shape.steps_per_epoch);
    if (o->train.max_steps > 0)
        steps = (double)o->train.max_steps;
    if (steps > 1e12)
        return ft_fail(err, FT_ELIMIT, "train.epochs: %.3g steps, at most 1e12 are possible",
                       steps);
    in->total_steps = (int64_t)steps;
    return FT_OK;
}

static ft_status compare_init(const struct adapter *ad, const struct inputs *in,
                              const struct train_options *o, ft_error *err)
{
    const struct adapter_config *has = adapter_config_of(ad), *wants = &in->adapter;
    if (has->rank != wants->rank)
        return ft_fail(err, FT_EUSAGE, "lora.init: %s has rank %" PRId64 ", lora.rank is %" PRId64,
                       o->lora.init, has->rank, wants->rank);
    if (adapter_scaling(has) != adapter_scaling(wants))
        return ft_fail(err, FT_EUSAGE,
                       "lora.init: %s is scaled by %g, lora.alpha and lora.rslora give %g",
                       o->lora.init, adapter_scaling(has), adapter_scaling(wants));
    for (int k = 0; k < LINEAR_KINDS; k++)
        if (has->target[k] != wants->target[k])
            return ft_fail(err, FT_EUSAGE,
                           "lora.init: %s has %smatrices for %s, which is %s "
                           "lora.targets",
                           o->lora.init, has->target[k] ? "" : "no ", linear_names[k],
                           wants->target[k] ? "in" : "not in");
    return FT_OK;
}

/* Headers only: the values are read when the model exists. */
static ft_status check_init(const struct inputs *in, const struct train_options *o, ft_error *err)
{
    struct adapter *ad;
    if (o->lora.init == NULL)
        return FT_OK;
    FT_TRY(adapter_open(&ad, o->lora.init, err));
    ft_status st = adapter_check_model(ad, nf4_file_config(in->base), err);
    if (st != FT_OK)
        st = ft_wrap(err, "lora.init: %s", o->lora.init);
    else
        st = compare_init(ad, in, o, err);
    adapter_close(ad);
    return st;
}

ft_status inputs_open(struct inputs *out, struct run_config *c, ft_error *err)
{
    const struct train_options *o = &c->values;
    *out = (struct inputs){
        .loader = {.mode = (enum batch_mode)o->batch.mode,
                   .micro = o->batch.micro,
                   .accumulate = o->batch.accumulate,
                   .seed = (uint64_t)o->run.seed},
        .n_threads = o->run.threads > 0 ? (int)o->run.threads : cpu_count(),
    };
    train_options_adapter(&out->adapter, o);
    FT_TRY(nf4_file_open(&out->base, o->base.path, err));
    FT_TRY(dataset_open(&out->data, o->data.path, err));
    if (o->data.plan != NULL)
        FT_TRY(dataset_use_plan(out->data, o->data.plan, err));
    out->adapter.base_name = arena_cstr(&out->arena, nf4_file_source(out->base));
    if (out->adapter.base_name == NULL)
        return ft_fail_memory(err, nf4_file_source(out->base).len, "a name");
    FT_TRY(check_vocabulary(out, o, err));
    FT_TRY(check_lengths(out, o, err));
    FT_TRY(check_init(out, o, err));
    FT_TRY(check_eval(out, c, err));
    FT_TRY(loader_measure(&out->shape, out->data, &out->loader, err));
    return count_steps(out, o, err);
}

void inputs_close(struct inputs *in)
{
    dataset_close(in->data);
    nf4_file_close(in->base);
    arena_destroy(&in->arena);
    *in = (struct inputs){0};
}
