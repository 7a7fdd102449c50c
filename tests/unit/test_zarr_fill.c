/* Fill values in all their encodings, to the bit; expectations computed by hand from IEEE 754. */
#include "zarr_fixture.h"

/* Items are given as the most significant bytes first, in hexadecimal; complex ones part by part.
 */
static const struct fill_case {
    enum zarr_format format;
    const char *type;
    const char *fill;
    const char *bits; /* NULL: refused */
} cases[] = {
    {ZARR_V2, "|b1", "true", "01"},
    {ZARR_V2, "|b1", "false", "00"},
    {ZARR_V2, "|b1", "1", "01"},
    {ZARR_V2, "|b1", "2", NULL},
    {ZARR_V2, "|i1", "-128", "80"},
    {ZARR_V2, "|i1", "-129", NULL},
    {ZARR_V2, "|i1", "128", NULL},
    {ZARR_V2, "|u1", "255", "ff"},
    {ZARR_V2, "|u1", "256", NULL},
    {ZARR_V2, "|u1", "-1", NULL},
    {ZARR_V2, "<i2", "-2", "fffe"},
    {ZARR_V2, ">i2", "-2", "fffe"},
    {ZARR_V2, "<i4", "7.0", "00000007"},
    {ZARR_V2, "<i4", "7.5", NULL},
    {ZARR_V2, "<i4", "NaN", NULL},
    {ZARR_V2, "<i4", "true", NULL},
    {ZARR_V2, "<i4", "\"12\"", "0000000c"},
    {ZARR_V2, "<i4", "\"-12\"", "fffffff4"},
    {ZARR_V2, "<i4", "\"\"", NULL},
    {ZARR_V2, "<i8", "-9223372036854775808", "8000000000000000"},
    {ZARR_V2, "<i8", "9223372036854775807", "7fffffffffffffff"},
    {ZARR_V2, "<i8", "9223372036854775808", NULL},
    {ZARR_V2, "<i8", "null", "0000000000000000"},
    {ZARR_V2, "<u8", "18446744073709551615", "ffffffffffffffff"},
    {ZARR_V2, "<u8", "18446744073709551614", "fffffffffffffffe"},
    {ZARR_V2, "<u8", "\"18446744073709551616\"", NULL},
    {ZARR_V2, "<f2", "1.5", "3e00"},
    {ZARR_V2, "<f2", "-0.0", "8000"},
    {ZARR_V2, "<f2", "65504", "7bff"},
    {ZARR_V2, "<f2", "65519.99", "7bff"},
    {ZARR_V2, "<f2", "65520", "7c00"}, /* halfway, to even: infinity */
    {ZARR_V2, "<f2", "1e300", "7c00"},
    {ZARR_V2, "<f2", "6.103515625e-05", "0400"}, /* the least normal */
    {ZARR_V2, "<f2", "5.9604644775390625e-08", "0001"},
    {ZARR_V2, "<f2", "2.98023223876953125e-08", "0000"}, /* half the least: to even */
    {ZARR_V2, "<f2", "2.99e-08", "0001"},
    {ZARR_V2, "<f2", "6.1005353927612305e-05", "0400"}, /* a subnormal rounding up to a normal */
    {ZARR_V2, "<f2", "2049", "6800"},                   /* tie to even, down */
    {ZARR_V2, "<f2", "2051", "6802"},                   /* tie to even, up */
    {ZARR_V2, "<f2", "4095.5", "6c00"},                 /* carries into the exponent */
    {ZARR_V2, "<f2", "NaN", "7e00"},
    {ZARR_V2, "<f2", "\"NaN\"", "7e00"},
    {ZARR_V2, "<f2", "\"-Infinity\"", "fc00"},
    {ZARR_V2, "<f2", "-Infinity", "fc00"},
    {ZARR_V2, "<f4", "\"0\"", "00000000"},
    {ZARR_V2, "<f4", "NaN", "7fc00000"},
    {ZARR_V2, "<f4", "Infinity", "7f800000"},
    {ZARR_V2, "<f4", "1e999", "7f800000"},
    {ZARR_V2, "<f4", "0.1", "3dcccccd"},
    {ZARR_V2, "<f4", "\"0x7fc00000\"", NULL}, /* v3 only */
    {ZARR_V2, "<f4", "\"nan\"", NULL},
    {ZARR_V2, "<f4", "\"1 2\"", NULL},
    {ZARR_V2, "<f4", "\"\"", NULL},
    {ZARR_V2, "<f4", "[1]", NULL},
    {ZARR_V2, "<f4", "false", NULL},
    {ZARR_V2, "<f8", "0.1", "3fb999999999999a"},
    {ZARR_V2, "<f8", "NaN", "7ff8000000000000"},
    {ZARR_V2, "<f8", "99999999999999999999", NULL}, /* beyond what JSON integers hold exactly */
    {ZARR_V2, "<f8", "-9223372036854775807", "c3e0000000000000"},
    {ZARR_V2, "<c8", "[1.5, \"NaN\"]", "3fc00000 7fc00000"},
    {ZARR_V2, "<c8", "0", "00000000 00000000"},
    {ZARR_V2, "<c8", "null", "00000000 00000000"},
    {ZARR_V2, "<c8", "[1]", NULL},
    {ZARR_V2, "<c8", "[1, 2, 3]", NULL},
    {ZARR_V2, "<c16", "[-1, 0.1]", "bff0000000000000 3fb999999999999a"},
    {ZARR_V3, "bool", "true", "01"},
    {ZARR_V3, "bool", "1", NULL},
    {ZARR_V3, "int8", "-1", "ff"},
    {ZARR_V3, "int8", "\"1\"", NULL},
    {ZARR_V3, "uint64", "18446744073709551615", "ffffffffffffffff"},
    {ZARR_V3, "float16", "\"0x7e01\"", "7e01"},
    {ZARR_V3, "float16", "\"0x7e0\"", NULL},
    {ZARR_V3, "float32", "\"0x7fc00001\"", "7fc00001"},
    {ZARR_V3, "float32", "\"0x7fc0000g\"", NULL},
    {ZARR_V3, "float32", "\"NaN\"", "7fc00000"},
    {ZARR_V3, "float64", "\"0xfff8000000000000\"", "fff8000000000000"},
    {ZARR_V3, "bfloat16", "\"NaN\"", "7fc0"},
    {ZARR_V3, "bfloat16", "\"0x3f80\"", "3f80"},
    {ZARR_V3, "bfloat16", "1", "3f80"},
    {ZARR_V3, "bfloat16", "1e39", "7f80"},
    {ZARR_V3, "bfloat16", "3.4e38", "7f80"}, /* rounds up beyond the largest */
    {ZARR_V3, "bfloat16", "3.3895313892515355e38", "7f7f"},
    {ZARR_V3, "bfloat16", "9.183549615799121e-41", "0001"},
    {ZARR_V3, "bfloat16", "\"-Infinity\"", "ff80"},
    {ZARR_V3, "complex64", "[\"0x7fc00001\", -0.0]", "7fc00001 80000000"},
    {ZARR_V3, "complex64", "1", NULL},
    {ZARR_V3, "complex128", "[\"Infinity\", 1]", "7ff0000000000000 3ff0000000000000"},
    {ZARR_V3, "float32", "null", NULL},
};

static enum status parse_fill(const struct fill_case *one, struct zarr_array *array,
                              struct error *err)
{
    struct text document = {0};
    if (one->format == ZARR_V2)
        text_append(
            &document,
            "{\"zarr_format\": 2, \"shape\": [1], \"chunks\": [1], \"dtype\": \"%s\", "
            "\"compressor\": null, \"fill_value\": %s, \"order\": \"C\", \"filters\": null}",
            one->type, one->fill);
    else
        text_append(
            &document,
            "{\"zarr_format\": 3, \"node_type\": \"array\", \"shape\": [1], \"data_type\": "
            "\"%s\", \"chunk_grid\": {\"name\": \"regular\", \"configuration\": "
            "{\"chunk_shape\": [1]}}, \"chunk_key_encoding\": \"default\", \"fill_value\": %s, "
            "\"codecs\": [{\"name\": \"bytes\", \"configuration\": {\"endian\": \"big\"}}]}",
            one->type, one->fill);
    enum status status =
        zarr_array_parse(one->format, "a", document.data, document.length, array, err);
    text_done(&document);
    return status;
}

/* The item's bytes as in fill_case. */
static void format_bits(const struct zarr_array *array, char *out)
{
    size_t unit = dtype_swap_bytes(array->dtype);
    for (size_t part = 0; part < array->item_bytes; part += unit) {
        if (part > 0)
            *out++ = ' ';
        for (size_t i = 0; i < unit; i++) {
            bool is_little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
            out += sprintf(out, "%02x", array->fill[part + (is_little ? unit - 1 - i : i)]);
        }
    }
}

static void test_fill_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct zarr_array array;
        struct error err;
        char bits[2 * DTYPE_MAX_BYTES + 2];
        enum status status = parse_fill(&cases[i], &array, &err);
        if (status != (cases[i].bits ? STATUS_OK : STATUS_CORRUPT))
            fail_msg("%s %s: %s", cases[i].type, cases[i].fill,
                     status != STATUS_OK ? err.message : "accepted");
        if (!cases[i].bits)
            continue;
        format_bits(&array, bits);
        if (strcmp(bits, cases[i].bits) != 0)
            fail_msg("%s %s: got %s, expected %s", cases[i].type, cases[i].fill, bits,
                     cases[i].bits);
    }
}

static void test_every_half(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 0x7c00; bits++) { /* every finite positive half, exactly */
        unsigned exponent = bits >> 10, mantissa = bits & 0x3ff;
        double value = exponent ? (1024.0 + mantissa) / 1024 : mantissa / 1024.0;
        char fill[40], text[40], expected[5];
        struct zarr_array array;
        struct error err;
        for (unsigned e = exponent ? exponent : 1; e < 15; e++)
            value /= 2;
        for (unsigned e = 15; e < exponent; e++)
            value *= 2;
        snprintf(fill, sizeof fill, "%.17g", value);
        struct fill_case one = {ZARR_V2, "<f2", fill, NULL};
        assert_ok(parse_fill(&one, &array, &err), &err);
        format_bits(&array, text);
        snprintf(expected, sizeof expected, "%04x", bits);
        assert_string_equal(text, expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fill_values),
        cmocka_unit_test(test_every_half),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
