/* Codecs whose libraries were not there when this was built: known by name, and refused
 * with what to install. */
#include "codec/codec_internal.h"

/* An array cannot have such a codec in its chain: codec_chain_add() refuses. */
#define LEFT_OUT(image, debian, is_core) \
    const struct codec codec_##image = { \
        .name = #image, .is_zarr_v3_core = is_core, .is_image = true, .package = debian};

#ifndef PENSTOCK_HAS_JPEG
LEFT_OUT(jpeg, "libturbojpeg0-dev", true)
#endif
#ifndef PENSTOCK_HAS_JPEGXL
LEFT_OUT(jpegxl, "libjxl-dev", true)
#endif
#ifndef PENSTOCK_HAS_JPEG2K
LEFT_OUT(jpeg2k, "libopenjp2-7-dev", true)
#endif
#ifndef PENSTOCK_HAS_PNG
LEFT_OUT(png, "libpng-dev", true)
#endif
#ifndef PENSTOCK_HAS_WEBP
LEFT_OUT(webp, "libwebp-dev", true)
#endif
#ifndef PENSTOCK_HAS_ZFPY
LEFT_OUT(zfpy, "libzfp-dev", false)
#endif
