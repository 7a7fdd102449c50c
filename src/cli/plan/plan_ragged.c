/* See plan_ragged.h. */
#include "cli/plan/plan_ragged.h"

#include "base/number.h"
#include "base/size.h"

#include <inttypes.h>

/* Items that a slot has room for; 0: the field's slots do not depend on lengths. */
static uint64_t slot_items(const struct ragged *ragged, const struct ring_layout *layout)
{
    return ragged_has_item_shape(ragged) ? layout->fields[ragged->columns[0].field].capacity : 0;
}

static void describe_form(const struct ragged *ragged, const struct run_setup *setup,
                          struct text *out)
{
    switch (ragged->form) {
    case RAGGED_CSR:
        if (ragged->multiple > 0)
            text_append(out, "; padded to multiples of %s", count_format(ragged->multiple).text);
        text_append(out, "; a slot has room for %s, ",
                    count_format(slot_items(ragged, &setup->layout)).text);
        if (setup->plan.cuts.items > 0)
            text_append(out, "the most that a step has for a trainer");
        else
            text_append(out, "those of the %s longest samples%s",
                        count_format(setup->plan.batch).text,
                        setup->plan.mix ? " that a step may have of all sources" : "");
        break;
    case RAGGED_PAD:
        text_append(out, "; padded to %s%s", count_format(ragged->pad_items).text,
                    ragged->truncates ? ", and cut there" : "");
        break;
    case RAGGED_BOUND:
        text_append(out, "; padded to the bound of each step: a slot has room for %s",
                    count_format(slot_items(ragged, &setup->layout)).text);
        break;
    case RAGGED_DENSE:
        text_append(out, "; put into %s places", count_format(ragged->dense_items).text);
        break;
    }
}

static double mean_pages(const struct dataset *dataset)
{
    return (double)dataset_most_pages(dataset, dataset->row_count) / (double)dataset->row_count;
}

void plan_describe_ragged(const struct dataset *dataset, const struct run_setup *setup,
                          struct text *out)
{
    for (size_t r = 0; r < dataset->ragged_count; r++) {
        const struct ragged *ragged = &dataset->ragged[r];
        double mean = (double)ragged->frame_items / (double)dataset->frame_count;
        text_append(out, "%-11s%s: %s item%s of %s", "ragged", ragged->name,
                    count_format(ragged->item_count).text, count_plural(ragged->item_count),
                    size_format(ragged_item_bytes(ragged)).text);
        if (ragged->panel_count > 0)
            text_append(out, " in %s listed column%s", count_format(ragged->panel_count).text,
                        count_plural(ragged->panel_count));
        text_append(out, ", %.*f a frame, %s at most", mean < 100 ? 2 : 0, mean,
                    count_format(ragged->most_frame_items).text);
        describe_form(ragged, setup, out);
        if (ragged->is_held) {
            text_append(out, "; held whole by each node\n");
            continue;
        }
        text_append(out,
                    "\n%-11spages of %s item%s, %s; rows cut chunks: each is decoded %.3g times\n",
                    "", count_format(ragged->page_items).text, count_plural(ragged->page_items),
                    size_format(ragged->page_bytes).text, ragged->decode_amplification);
    }
    if (dataset->page_bytes > 0)
        text_append(out, "%-11sof %s, about %.3g a row, %s at most\n", "pages",
                    size_format(dataset->page_bytes).text, mean_pages(dataset),
                    count_format(dataset_most_row_pages(dataset)).text);
}

void plan_ragged_json(const struct dataset *dataset, const struct run_setup *setup,
                      struct text *out)
{
    if (dataset->ragged_count == 0)
        return;
    text_append(out,
                "\"ragged\":{\"page_bytes\":%zu,\"mean_row_pages\":%.6g,\"most_row_pages\":%" PRIu64
                ",\"send_bytes\":%" PRIu64 ",\"receive_bytes\":%" PRIu64 ",\"fields\":[",
                dataset->page_bytes, mean_pages(dataset), dataset_most_row_pages(dataset),
                setup->budget.send_trailer_bytes, setup->budget.receive_trailer_bytes);
    for (size_t r = 0; r < dataset->ragged_count; r++) {
        const struct ragged *ragged = &dataset->ragged[r];
        text_append(out,
                    "%s{\"name\":\"%s\",\"items\":%" PRIu64 ",\"most_frame_items\":%" PRIu64
                    ",\"page_items\":%" PRIu64 ",\"slot_items\":%" PRIu64 "}",
                    r > 0 ? "," : "", ragged->name, ragged->item_count, ragged->most_frame_items,
                    ragged->page_items, slot_items(ragged, &setup->layout));
    }
    text_append(out, "]},");
}
