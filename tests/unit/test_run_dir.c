/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/run_dir.h"

#include <sys/wait.h>
#include <unistd.h>

#include "common/file.h"
#include "tests/support/check.h"
#include "trainer/comm.h"

static void a_locked_directory_is_refused_until_the_holder_ends(void **state)
{
    struct run_dir first, second;
    ft_error err;
    char pid[48];
    const char *path = test_path("run-lock/a/b");
    (void)state;
    ASSERT_OK(run_dir_open(&first, path, &err));
    snprintf(pid, sizeof pid, "another fttrain (process %ld)", (long)getpid());
    ASSERT_FAILS(run_dir_open(&second, path, &err), FT_ESTATE, pid);
    run_dir_close(&second);
    run_dir_close(&first);
    ASSERT_OK(run_dir_open(&second, path, &err));
    run_dir_close(&second);

    /* A process that dies without closing leaves no lock behind. */
    pid_t child = fork();
    if (child == 0) {
        struct run_dir mine;
        _exit(run_dir_open(&mine, path, &err) == FT_OK ? 0 : 1);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    ASSERT_OK(run_dir_open(&first, path, &err));
    run_dir_close(&first);
}

static void a_directory_that_cannot_be_made_is_named(void **state)
{
    struct run_dir d;
    ft_error err;
    (void)state;
    ASSERT_OK(file_publish(test_path("plain-file"), "x", 1, &err));
    ASSERT_FAILS(run_dir_open(&d, test_path("plain-file/run"), &err), FT_EIO, "plain-file");
    run_dir_close(&d);
}

static void a_probe_finds_what_opening_would_and_leaves_nothing(void **state)
{
    struct run_dir held, d;
    ft_error err;
    (void)state;
    ASSERT_OK(run_dir_probe(&d, test_path("probed/deep/run"), &err));
    run_dir_close(&d);
    assert_false(path_exists(test_path("probed")));
    ASSERT_OK(file_publish(test_path("plain-file"), "x", 1, &err));
    ASSERT_FAILS(run_dir_probe(&d, test_path("plain-file"), &err), FT_EIO, "plain-file");
    run_dir_close(&d);
    ASSERT_FAILS(run_dir_probe(&d, test_path("plain-file/run"), &err), FT_EIO, "plain-file");
    run_dir_close(&d);
    ASSERT_FAILS(run_dir_probe(&d, "/proc/x", &err), FT_EIO, "/proc");
    run_dir_close(&d);
    ASSERT_FAILS(run_dir_probe(&d, "", &err), FT_EUSAGE, "run.dir");
    run_dir_close(&d);
    ASSERT_OK(run_dir_open(&held, test_path("held"), &err));
    ASSERT_FAILS(run_dir_probe(&d, test_path("held"), &err), FT_ESTATE, "another fttrain");
    run_dir_close(&d);
    run_dir_close(&held);
    ASSERT_OK(run_dir_probe(&d, test_path("held"), &err));
    run_dir_close(&d);
}

static void one_rank_sums_to_itself(void **state)
{
    struct comm c;
    ft_error err;
    float f[2] = {1, 2};
    double d[2] = {3, 4};
    (void)state;
    ASSERT_OK(comm_open(&c, "self", &err));
    assert_true(c.rank == 0 && c.world == 1);
    comm_sum_f32(&c, f, 2);
    comm_sum_f64(&c, d, 2);
    assert_true(f[0] == 1 && f[1] == 2 && d[0] == 3 && d[1] == 4);
    ASSERT_OK(comm_status(&c, &err));
    comm_close(&c);
    ASSERT_FAILS(comm_open(&c, "pigeon", &err), FT_EUSAGE, "this build has self");
    comm_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_locked_directory_is_refused_until_the_holder_ends),
        cmocka_unit_test(a_directory_that_cannot_be_made_is_named),
        cmocka_unit_test(a_probe_finds_what_opening_would_and_leaves_nothing),
        cmocka_unit_test(one_rank_sums_to_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
