# Arrays written by zarr-python must decode to the same bytes here.
#
# v2 takes a Python with zarr-python 2 (Debian: python3-zarr), v3 one with zarr-python 3, named by
# the cache or environment variable PENSTOCK_ZARR3_PYTHON. A Python without it skips, saying why.
add_executable(dump_array ${CMAKE_CURRENT_LIST_DIR}/../tools/dump_array.c)
target_link_libraries(dump_array PRIVATE penstock-options penstock-zarr)

find_program(PENSTOCK_ZARR2_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH
             DOC "Python with zarr-python 2")
find_program(PENSTOCK_ZARR3_PYTHON NAMES "$ENV{PENSTOCK_ZARR3_PYTHON}" python3
             DOC "Python with zarr-python 3")

foreach(format 2 3)
  if(PENSTOCK_ZARR${format}_PYTHON)
    add_test(NAME python.zarr_oracle_v${format}
      COMMAND ${PENSTOCK_ZARR${format}_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/test_zarr_oracle.py
              --format ${format} --dump $<TARGET_FILE:dump_array>)
    set_tests_properties(python.zarr_oracle_v${format} PROPERTIES
      LABELS "python;matrix" SKIP_RETURN_CODE 77 TIMEOUT 600)
  else()
    message(STATUS "no Python for zarr v${format}: python.zarr_oracle_v${format} is not built")
  endif()
endforeach()

# numcodecs' own chunks, and ours against what it decodes; either Python may have it.
foreach(python ZARR2 ZARR3)
  if(PENSTOCK_${python}_PYTHON)
    set(numcodecs_test ${PENSTOCK_${python}_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/test_numcodecs.py
                       --dump $<TARGET_FILE:dump_array>)
    string(TOLOWER ${python} name)
    add_test(NAME python.numcodecs_${name} COMMAND ${numcodecs_test} --matrix)
    set_tests_properties(python.numcodecs_${name} PROPERTIES
      LABELS "python;matrix" SKIP_RETURN_CODE 77 TIMEOUT 600)
    if(NOT TEST conformance.numcodecs)
      add_test(NAME conformance.numcodecs COMMAND ${numcodecs_test} --corpus)
      set_tests_properties(conformance.numcodecs PROPERTIES
        LABELS python SKIP_RETURN_CODE 77 TIMEOUT 600)
    endif()
  endif()
endforeach()

# The same matrix of arrays by every writer there is, in each format that it has, against NumPy.
foreach(writer zarr2-v2 zarr3-v2 zarr3-v3 tensorstore-v2 tensorstore-v3)
  set(python ${PENSTOCK_ZARR3_PYTHON})
  if(writer STREQUAL zarr2-v2)
    set(python ${PENSTOCK_ZARR2_PYTHON})
  endif()
  if(python)
    add_test(NAME matrix.${writer}
      COMMAND ${python} ${CMAKE_CURRENT_LIST_DIR}/test_zarr_matrix.py
              --writer ${writer} --dump $<TARGET_FILE:dump_array>)
    set_tests_properties(matrix.${writer} PROPERTIES
      LABELS "python;matrix" SKIP_RETURN_CODE 77 TIMEOUT 600)
  endif()
endforeach()

# Shards and transposes, against NumPy; and what zarrs has written, where PENSTOCK_CORPORA has it.
if(PENSTOCK_ZARR3_PYTHON)
  add_test(NAME python.zarr_shards
    COMMAND ${PENSTOCK_ZARR3_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/test_zarr_shards.py
            --dump $<TARGET_FILE:dump_array>)
  set_tests_properties(python.zarr_shards PROPERTIES
    LABELS "python;matrix" SKIP_RETURN_CODE 77 TIMEOUT 600)
endif()
if(PENSTOCK_ZARR2_PYTHON)
  add_test(NAME conformance.zarrs
    COMMAND ${PENSTOCK_ZARR2_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/test_zarrs_snapshot.py
            --dump $<TARGET_FILE:dump_array>)
  set_tests_properties(conformance.zarrs PROPERTIES
    LABELS python SKIP_RETURN_CODE 77 TIMEOUT 600)
endif()

# Icechunk repositories: those that PENSTOCK_CORPORA has; and new ones, by a Python with icechunk.
if(PENSTOCK_ZARR2_PYTHON)
  add_test(NAME conformance.icechunk
    COMMAND ${PENSTOCK_ZARR2_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/test_icechunk_corpora.py
            --dump $<TARGET_FILE:dump_array>)
  set_tests_properties(conformance.icechunk PROPERTIES
    LABELS python SKIP_RETURN_CODE 77 TIMEOUT 600)
endif()
find_program(PENSTOCK_ICECHUNK_PYTHON NAMES "$ENV{PENSTOCK_ICECHUNK_PYTHON}" ${PENSTOCK_ZARR3_PYTHON} python3
             DOC "Python with icechunk")
if(PENSTOCK_ICECHUNK_PYTHON)
  add_test(NAME python.icechunk
    COMMAND ${PENSTOCK_ICECHUNK_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/test_icechunk.py
            --dump $<TARGET_FILE:dump_array> --field $<TARGET_FILE:dump_field> --penstock $<TARGET_FILE:penstock-cli>)
  set_tests_properties(python.icechunk PROPERTIES
    LABELS "python;matrix" SKIP_RETURN_CODE 77 TIMEOUT 600)
endif()

# References of kerchunk and VirtualiZarr: to a file made by hand; and by these packages, as far as a Python has them.
find_program(PENSTOCK_REFERENCES_PYTHON NAMES "$ENV{PENSTOCK_REFERENCES_PYTHON}" ${PENSTOCK_ZARR3_PYTHON} python3
             DOC "Python with h5py, netCDF4, kerchunk and virtualizarr")
if(PENSTOCK_REFERENCES_PYTHON)
  foreach(mode hand peers)
    set(name python.references)
    if(mode STREQUAL peers)
      set(name python.references_peers)
    endif()
    add_test(NAME ${name}
      COMMAND ${PENSTOCK_REFERENCES_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/test_references.py
              --dump $<TARGET_FILE:dump_array> --field $<TARGET_FILE:dump_field> --${mode})
    set_tests_properties(${name} PROPERTIES LABELS python SKIP_RETURN_CODE 77 TIMEOUT 600)
  endforeach()
  set_property(TEST python.references_peers APPEND PROPERTY LABELS matrix)
endif()

# Fields: slices against NumPy's, of arrays that zarr-python wrote.
add_executable(dump_field ${CMAKE_CURRENT_LIST_DIR}/../tools/dump_field.c)
target_link_libraries(dump_field PRIVATE penstock-options penstock-config penstock-dataset)
if(PENSTOCK_ZARR3_PYTHON)
  add_test(NAME conformance.fields
    COMMAND ${PENSTOCK_ZARR3_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/test_zarr_fields.py
            --dump $<TARGET_FILE:dump_field>)
  set_tests_properties(conformance.fields PROPERTIES
    LABELS python SKIP_RETURN_CODE 77 TIMEOUT 600)
endif()

# cf: true, and copies by rechunk, against xarray.
if(PENSTOCK_ZARR3_PYTHON)
  add_test(NAME conformance.cf
    COMMAND ${PENSTOCK_ZARR3_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/test_cf.py
            --dump $<TARGET_FILE:dump_field> --penstock $<TARGET_FILE:penstock-cli>)
  set_tests_properties(conformance.cf PROPERTIES
    LABELS python SKIP_RETURN_CODE 77 TIMEOUT 600)
endif()

# penstock stats, against NumPy.
if(PENSTOCK_ZARR3_PYTHON)
  add_test(NAME python.stats
    COMMAND ${PENSTOCK_ZARR3_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/test_stats.py
            --dump $<TARGET_FILE:dump_field> --penstock $<TARGET_FILE:penstock-cli>)
  set_tests_properties(python.stats PROPERTIES
    LABELS python SKIP_RETURN_CODE 77 TIMEOUT 600)
endif()

# The model of samples beside packages that are too heavy to install for a test; what there is of them is used.
if(PENSTOCK_ZARR3_PYTHON)
  add_test(NAME python.sample_peers
    COMMAND ${PENSTOCK_ZARR3_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/test_sample_peers.py)
  set_tests_properties(python.sample_peers PROPERTIES
    LABELS python SKIP_RETURN_CODE 77 TIMEOUT 600)
endif()

# Data types that NumPy has as something else, or not.
if(PENSTOCK_ZARR3_PYTHON)
  add_test(NAME python.dtypes
    COMMAND ${PENSTOCK_ZARR3_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/test_dtypes.py
            --dump $<TARGET_FILE:dump_array>)
  set_tests_properties(python.dtypes PROPERTIES LABELS "python;matrix" SKIP_RETURN_CODE 77 TIMEOUT 600)
endif()

# Images in chunks, against imagecodecs: what it wrote elsewhere, and what it writes here, where it is installed.
if(PENSTOCK_ZARR3_PYTHON)
  foreach(mode corpus matrix)
    set(name python.images)
    if(mode STREQUAL corpus)
      set(name conformance.images)
    endif()
    add_test(NAME ${name}
      COMMAND ${PENSTOCK_ZARR3_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/test_images.py
              --dump $<TARGET_FILE:dump_array> --${mode})
    set_tests_properties(${name} PROPERTIES LABELS python SKIP_RETURN_CODE 77 TIMEOUT 600)
  endforeach()
  set_property(TEST python.images APPEND PROPERTY LABELS matrix)
endif()
