/* SPDX-License-Identifier: Apache-2.0
 * Parts -> data set: blocks are copied as they are stored, the index is made anew without
 * duplicates and with the further copies of samples. */
#ifndef TOOLS_ASSEMBLE_H
#define TOOLS_ASSEMBLE_H

#include "formats/plan.h"
#include "formats/tok/tok.h"

struct assemble {
    const char *dir;    /* of the data set; exists and is empty */
    const char *parts;  /* directory of the parts */
    bool discard_parts; /* remove it when everything is copied: it is inside dir */
    struct plan *plan;  /* its manifest is completed and written */
    const struct tok *tok;
    uint64_t n_leaked; /* out: training samples whose ids are those of an --eval file's, too */
};

/* Every part of the plan must be there and whole: FT_ESTATE names how many are missing, FT_EFORMAT
 * those that are damaged. Memory: 20 bytes a sample with dedup or --eval files, then what packing
 * takes; the manifest is written last. FT_EFORMAT when no sample is left to train on. */
FT_NODISCARD ft_status assemble_run(struct assemble *a, ft_error *err);

#endif
