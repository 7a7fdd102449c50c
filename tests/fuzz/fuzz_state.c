/* Fuzz target for resume states: any bytes are refused with a message, or give a state that is
 * printed and read back as the same. */
#include "fuzz.h"

#include "run/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct run_state state, again;
    struct error err;
    char *json = malloc(size ? size : 1); /* of just that size, and without a NUL behind */
    CHECK(json);
    memcpy(json, data, size);
    enum status status = run_state_parse(json, size, &state, &err);
    free(json);
    if (status != STATUS_OK) {
        CHECK(err.status == (int32_t)status && err.message[0]);
        return 0;
    }
    if (state.version == 1)
        return 0; /* is printed with what the run adds */
    struct text text = {0};
    run_state_print(&state, &text);
    CHECK(run_state_parse(text.data, text.length, &again, &err) == STATUS_OK);
    CHECK(memcmp(&again, &state, sizeof state) == 0);
    text_done(&text);
    return 0;
}
