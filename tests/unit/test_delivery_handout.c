/* The handout: what a trainer sees of it, and memory that is none or that may still change. */
#include "delivery_support.h"

#include "delivery/ring/handout.h"
#include "delivery/ring/sealed.h"

#include <fcntl.h>
#include <sys/mman.h>

static const uint64_t shape[] = {2, 3};
static const float orography[2][3] = {{1, 2, 3}, {4, 5, 6}};
static const struct handout_source sources[] = {
    {.name = "image", .shape = shape, .attributes = "{\"units\":\"K\"}"},
    {.name = "label", .shape = shape, .attributes = "{}"},
    {.name = "grid/orography",
     .dtype = DTYPE_FLOAT32,
     .rank = 2,
     .shape = shape,
     .data = orography,
     .data_bytes = sizeof orography,
     .attributes = "{\"units\":\"m\",\"long_name\":\"height\"}"}};

static int make(void)
{
    int memfd;
    assert_int_equal(handout_create(sources, 2, 1, &memfd, NULL), STATUS_OK);
    return memfd;
}

static void a_trainer_sees_it(void **state)
{
    (void)state;
    struct run_folder folder = run_folder_new();
    struct ring_layout layout = support_layout(SUPPORT_SLOTS);
    struct ring_service service = support_service(1);
    int handout = make();
    struct server_options options = {.run_dir = folder.path,
                                     .max_trainers = 1,
                                     .layout = &layout,
                                     .service = &service,
                                     .handout = &handout};
    struct server *server;
    struct dialing dialing;
    assert_int_equal(server_new(&options, &server, NULL), STATUS_OK);
    close(handout);
    assert_int_equal(server_listen(server, NULL), STATUS_OK);
    dial(&dialing, folder.path, 0, 1);
    pump_until(server, 1);
    start_delivery(server, &dialing);
    server_free(server); /* the trainer's stays */
    const struct penstock_info *info = penstock_describe(dialing.client);
    assert_string_equal(info->fields[0].attributes, "{\"units\":\"K\"}");
    assert_string_equal(info->fields[1].attributes, "{}");
    assert_int_equal(info->constant_count, 1);
    const struct penstock_constant *constant = &info->constants[0];
    assert_string_equal(constant->name, "grid/orography");
    assert_int_equal(constant->dtype, PENSTOCK_FLOAT32);
    assert_true(constant->rank == 2 && constant->shape[0] == 2 && constant->shape[1] == 3);
    assert_true(constant->item_bytes == 4 && constant->bytes == sizeof orography);
    assert_memory_equal(constant->data, orography, sizeof orography);
    assert_int_equal((uintptr_t)constant->data % 64, 0);
    assert_string_equal(constant->attributes, "{\"units\":\"m\",\"long_name\":\"height\"}");
    penstock_close(dialing.client);
    run_folder_done(&folder);
}

/* A handout with some bytes changed, sealed or not. */
static enum status open_changed(size_t offset, const void *bytes, size_t size, bool sealed)
{
    unsigned char copy[4096];
    int made = make(), memfd = memfd_create("penstock-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ssize_t length = pread(made, copy, sizeof copy, 0);
    struct handout handout = {0};
    struct error err;
    assert_true(length > 0 && (size_t)length >= offset + size);
    memcpy(copy + offset, bytes, size);
    assert_int_equal(pwrite(memfd, copy, (size_t)length, 0), length);
    if (sealed)
        assert_int_equal(sealed_make_constant(memfd, NULL), STATUS_OK);
    else
        assert_int_equal(sealed_make(memfd, NULL), STATUS_OK);
    close(made);
    enum status status = handout_open(memfd, &handout, &err);
    assert_true(fcntl(memfd, F_GETFD) < 0); /* taken */
    if (status != STATUS_OK)
        assert_true(err.message[0] && !handout.memory);
    handout_done(&handout);
    return status;
}

#define HEADER(member) offsetof(struct handout_header, member)
#define ITEM(i, member)                                                  \
    (sizeof(struct handout_header) + (i) * sizeof(struct handout_item) + \
     offsetof(struct handout_item, member))

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    const uint64_t huge = UINT64_MAX, far = 1 << 20, odd = 70;
    const uint32_t many = 65, two = 2, nine = 9, none = 0;
    assert_int_equal(open_changed(0, "", 0, true), STATUS_OK);
    assert_int_equal(open_changed(0, "", 0, false), STATUS_PROTOCOL);
    assert_int_equal(open_changed(HEADER(magic), &huge, 8, true), STATUS_PROTOCOL);
    assert_int_equal(open_changed(HEADER(version), &two, 4, true), STATUS_UNSUPPORTED);
    assert_int_equal(open_changed(HEADER(field_count), &many, 4, true), STATUS_PROTOCOL);
    assert_int_equal(open_changed(HEADER(constant_count), &many, 4, true), STATUS_PROTOCOL);
    assert_int_equal(open_changed(HEADER(constant_count), &nine, 4, true), STATUS_PROTOCOL);
    assert_int_equal(open_changed(HEADER(total_bytes), &far, 8, true), STATUS_PROTOCOL);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(open_changed(ITEM(i, text_offset), &far, 8, true), STATUS_PROTOCOL);
        assert_int_equal(open_changed(ITEM(i, text_bytes), &huge, 8, true), STATUS_PROTOCOL);
        assert_int_equal(open_changed(ITEM(i, text_bytes), &two, 4, true),
                         i == 1 ? STATUS_OK : STATUS_PROTOCOL);
        assert_int_equal(open_changed(ITEM(i, data_bytes), &far, 8, true), STATUS_PROTOCOL);
    }
    assert_int_equal(open_changed(ITEM(2, data_offset), &far, 8, true), STATUS_PROTOCOL);
    assert_int_equal(open_changed(ITEM(2, data_offset), &odd, 8, true), STATUS_PROTOCOL);
    assert_int_equal(open_changed(ITEM(2, dtype), &none, 4, true), STATUS_PROTOCOL);
    assert_int_equal(open_changed(ITEM(2, rank), &nine, 4, true), STATUS_PROTOCOL);
    assert_int_equal(open_changed(ITEM(2, shape), &huge, 8, true), STATUS_PROTOCOL);
    assert_int_equal(open_changed(ITEM(2, name), "", 1, true), STATUS_PROTOCOL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trainer_sees_it),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
