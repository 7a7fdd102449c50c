# Libraries that every build needs, found once; folders name the targets. launch/lib.sh has the names of Debian's packages.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(BZip2 REQUIRED) # Debian 12's has no pkg-config file

pkg_check_modules(BLOSC REQUIRED IMPORTED_TARGET blosc)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc>=2.5)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(JSON_C REQUIRED IMPORTED_TARGET json-c)
pkg_check_modules(LIBCRYPTO REQUIRED IMPORTED_TARGET libcrypto)
pkg_check_modules(LIBCURL REQUIRED IMPORTED_TARGET libcurl>=7.85)
pkg_check_modules(LIBDEFLATE REQUIRED IMPORTED_TARGET libdeflate)
pkg_check_modules(LZ4 REQUIRED IMPORTED_TARGET liblz4)
pkg_check_modules(LZMA REQUIRED IMPORTED_TARGET liblzma)
if(PENSTOCK_MPI)
  pkg_check_modules(MICROHTTPD REQUIRED IMPORTED_TARGET libmicrohttpd)
endif()
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)

# FFmpeg's libraries are for `penstock ingest` alone.
set(PENSTOCK_INGEST AUTO CACHE STRING "penstock ingest, which needs FFmpeg's libraries: AUTO (where they are), ON or OFF")
set_property(CACHE PENSTOCK_INGEST PROPERTY STRINGS AUTO ON OFF)
if(PENSTOCK_INGEST)
  pkg_check_modules(FFMPEG QUIET IMPORTED_TARGET libavformat>=59 libavcodec>=59 libswscale>=6 libavutil>=57)
  if(NOT FFMPEG_FOUND AND PENSTOCK_INGEST STREQUAL "ON")
    message(FATAL_ERROR "PENSTOCK_INGEST is ON, and FFmpeg's libraries are not there "
                        "(Debian: libavformat-dev libavcodec-dev libswscale-dev libavutil-dev)")
  endif()
else()
  set(FFMPEG_FOUND FALSE) # an earlier configuration of this folder may have found them
endif()

# Codecs that a build may lack: which library each takes, and its Debian package.
set(PENSTOCK_IMAGES AUTO CACHE STRING "codecs of images and zfpy, which need libraries of their own: AUTO (those whose libraries are there), ON (all) or OFF")
set_property(CACHE PENSTOCK_IMAGES PROPERTY STRINGS AUTO ON OFF)
set(PENSTOCK_IMAGE_CODECS)
foreach(codec "JPEG libturbojpeg libturbojpeg0-dev" "JPEGXL libjxl>=0.7 libjxl-dev" "JPEG2K libopenjp2>=2.5 libopenjp2-7-dev"
              "PNG libpng>=1.6 libpng-dev" "WEBP libwebp libwebp-dev" "ZFPY zfp libzfp-dev")
  separate_arguments(codec)
  list(GET codec 0 name)
  list(GET codec 1 library)
  list(GET codec 2 package)
  if(PENSTOCK_IMAGES AND name STREQUAL "ZFPY") # has no pkg-config file
    find_package(zfp CONFIG QUIET)
    set(IMAGE_ZFPY_FOUND ${zfp_FOUND})
    if(zfp_FOUND AND NOT TARGET PkgConfig::IMAGE_ZFPY)
      add_library(PkgConfig::IMAGE_ZFPY ALIAS zfp::zfp)
    endif()
  elseif(PENSTOCK_IMAGES)
    pkg_check_modules(IMAGE_${name} QUIET IMPORTED_TARGET ${library})
  else()
    set(IMAGE_${name}_FOUND FALSE) # an earlier configuration of this folder may have found it
  endif()
  string(TOLOWER ${name} lower)
  if(IMAGE_${name}_FOUND)
    list(APPEND PENSTOCK_IMAGE_CODECS ${name})
  elseif(PENSTOCK_IMAGES STREQUAL "ON")
    message(FATAL_ERROR "PENSTOCK_IMAGES is ON, and ${library} is not there (Debian: ${package})")
  else()
    message(STATUS "Codec ${lower} is left out (library ${library}; Debian: ${package})")
  endif()
endforeach()
