/* The row index against a plain array, at full load and with rows that come and go. */
#include "base/random.h"
#include "read/row_index.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

enum { ROWS = 300, CAPACITY = 97, STEPS = 200000 };

static void test_against_model(void **state)
{
    (void)state;
    struct row_index index;
    assert_int_equal(row_index_init(&index, CAPACITY, NULL), STATUS_OK);
    int32_t model[ROWS];
    for (int i = 0; i < ROWS; i++)
        model[i] = ROW_NONE;
    uint32_t held = 0;
    for (uint64_t step = 0; step < STEPS; step++) {
        uint64_t row = random_below(random_u64(1, 0, step), ROWS);
        uint64_t key = row * UINT64_C(0x100000001); /* large ones too */
        assert_int_equal(row_index_find(&index, key), model[row]);
        if (model[row] != ROW_NONE) {
            row_index_remove(&index, key);
            model[row] = ROW_NONE;
            held--;
        } else if (held < CAPACITY) {
            model[row] = (int32_t)(step % 1000);
            row_index_add(&index, key, model[row]);
            held++;
        }
    }
    for (uint64_t row = 0; row < ROWS; row++)
        assert_int_equal(row_index_find(&index, row * UINT64_C(0x100000001)), model[row]);
    row_index_done(&index);
}

static void test_smallest(void **state)
{
    (void)state;
    struct row_index index;
    assert_int_equal(row_index_init(&index, 1, NULL), STATUS_OK);
    for (uint64_t row = 0; row < 100; row++) {
        assert_int_equal(row_index_find(&index, row), ROW_NONE);
        row_index_add(&index, row, 5);
        assert_int_equal(row_index_find(&index, row), 5);
        assert_int_equal(row_index_find(&index, row + 1), ROW_NONE);
        row_index_remove(&index, row);
    }
    row_index_done(&index);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_model),
        cmocka_unit_test(test_smallest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
