/* SPDX-License-Identifier: Apache-2.0 */
#include "common/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/check.h"

static str read_back(struct arena *a, const char *path)
{
    ft_error err;
    str text;
    ASSERT_OK(file_read_all(&text, a, path, 1 << 20, &err));
    return text;
}

static void publish_replaces_whole_files_and_leaves_no_temporary(void **state)
{
    struct arena a = {0};
    ft_error err;
    const char *dir = test_path("publish"), *path = test_path("publish/f");
    const char **names;
    size_t n;
    (void)state;
    ASSERT_OK(dir_remove(dir, &err));
    ASSERT_OK(dir_create(dir, &err));
    ASSERT_OK(file_publish(path, "old", 3, &err));
    ASSERT_OK(file_publish(path, "new content", 11, &err));
    assert_true(str_is(read_back(&a, path), "new content"));

    struct file_writer w;
    ASSERT_OK(file_writer_open(&w, path, &err));
    file_write(&w, "half", 4);
    file_writer_abort(&w);
    assert_true(str_is(read_back(&a, path), "new content"));
    ASSERT_OK(dir_list(&names, &n, &a, dir, &err));
    assert_int_equal(n, 1);
    arena_destroy(&a);
}

static void large_and_patched_writes_keep_every_byte(void **state)
{
    static uint8_t block[300000];
    struct arena a = {0};
    struct file_writer w;
    ft_error err;
    const char *path = test_path("large");
    (void)state;
    for (size_t i = 0; i < sizeof block; i++)
        block[i] = (uint8_t)(i * 31);
    ASSERT_OK(file_writer_open(&w, path, &err));
    file_write(&w, "head", 4);
    file_write(&w, block, sizeof block);
    file_write(&w, "tail", 4);
    file_write_at(&w, 0, "HEAD", 4);
    file_write(&w, "!", 1);
    ASSERT_OK(file_writer_commit(&w, &err));
    struct file_map m;
    ASSERT_OK(file_map_open(&m, path, &err));
    assert_int_equal(m.bytes, sizeof block + 9);
    assert_memory_equal(m.data, "HEAD", 4);
    assert_memory_equal(m.data + 4, block, sizeof block);
    assert_memory_equal(m.data + 4 + sizeof block, "tail!", 5);
    file_map_close(&m);
    arena_destroy(&a);
}

static void a_full_disk_is_reported_by_commit(void **state)
{
    struct file_writer w;
    ft_error err;
    (void)state;
    ASSERT_OK(file_writer_open(&w, test_path("full"), &err));
    /* The device that is always full stands in for the temporary file. */
    assert_true(freopen("/dev/full", "r", stdin) != NULL);
    int full = dup2(fileno(fopen("/dev/full", "w")), w.fd);
    assert_true(full >= 0);
    file_write(&w, "data", 4);
    ASSERT_FAILS(file_writer_commit(&w, &err), FT_EIO, "No space left on device");
    assert_false(path_exists(test_path("full")));
}

static void wrong_paths_say_what_is_wrong(void **state)
{
    struct file_map m;
    struct file_writer w;
    struct arena a = {0};
    str text;
    ft_error err;
    (void)state;
    ASSERT_FAILS(file_map_open(&m, test_path("absent"), &err), FT_EIO, "No such file");
    ASSERT_FAILS(file_map_open(&m, "tests", &err), FT_EIO, "is a directory");
    ASSERT_FAILS(file_map_open(&m, "/dev/null", &err), FT_EIO, "not a regular file");
    ASSERT_FAILS(file_writer_open(&w, test_path("absent/dir/f"), &err), FT_EIO, "cannot create");
    ASSERT_OK(file_publish(test_path("ten"), "0123456789", 10, &err));
    ASSERT_FAILS(file_read_all(&text, &a, test_path("ten"), 9, &err), FT_ELIMIT, "at most 9");
    ASSERT_FAILS(dir_create(test_path("ten/sub"), &err), FT_EIO, "cannot create the directory");
    ASSERT_OK(file_publish(test_path("empty"), "", 0, &err));
    ASSERT_OK(file_map_open(&m, test_path("empty"), &err));
    assert_null(m.data);
    arena_destroy(&a);
}

static void a_writer_replaces_nothing_but_regular_files(void **state)
{
    struct file_writer w;
    ft_error err;
    (void)state;
    ASSERT_FAILS(file_writer_open(&w, "tests", &err), FT_EIO,
                 "tests: is a directory, expected a file name");
    ASSERT_FAILS(file_writer_open(&w, "/dev/null", &err), FT_EIO,
                 "/dev/null: is a device, expected a file name");
    file_writer_abort(&w); /* nothing to undo */
    unlink(test_path("fifo"));
    assert_int_equal(mkfifo(test_path("fifo"), 0600), 0);
    ASSERT_FAILS(file_publish(test_path("fifo"), "x", 1, &err), FT_EIO, "is a pipe or socket");
}

static void one_file_under_two_names_is_the_same(void **state)
{
    ft_error err;
    char name[1024];
    (void)state;
    ASSERT_OK(file_publish(test_path("one"), "x", 1, &err));
    ASSERT_OK(file_publish(test_path("two"), "x", 1, &err));
    snprintf(name, sizeof name, "%s", test_path("one"));
    unlink(test_path("one-link"));
    assert_int_equal(link(name, test_path("one-link")), 0);
    assert_true(path_same(name, test_path("one-link")));
    assert_false(path_same(name, test_path("two")));
    assert_false(path_same(name, test_path("absent")));
}

static void dir_remove_takes_trees_and_spares_link_targets(void **state)
{
    ft_error err;
    char target[1024];
    (void)state;
    ASSERT_OK(dir_create(test_path("tree/a/b"), &err));
    ASSERT_OK(file_publish(test_path("tree/a/b/f"), "x", 1, &err));
    ASSERT_OK(file_publish(test_path("kept"), "x", 1, &err));
    snprintf(target, sizeof target, "%s", test_path("kept"));
    assert_int_equal(symlink("../kept", test_path("tree/link")), 0);
    ASSERT_OK(dir_remove(test_path("tree"), &err));
    assert_false(path_exists(test_path("tree")));
    assert_true(path_exists(target));
    ASSERT_OK(dir_remove(test_path("tree"), &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(publish_replaces_whole_files_and_leaves_no_temporary),
        cmocka_unit_test(large_and_patched_writes_keep_every_byte),
        cmocka_unit_test(a_full_disk_is_reported_by_commit),
        cmocka_unit_test(wrong_paths_say_what_is_wrong),
        cmocka_unit_test(a_writer_replaces_nothing_but_regular_files),
        cmocka_unit_test(one_file_under_two_names_is_the_same),
        cmocka_unit_test(dir_remove_takes_trees_and_spares_link_targets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
