# penstock verify and rechunk against zarr-python 3; a Python without it skips, saying why.
if(PENSTOCK_ZARR3_PYTHON)
  add_test(NAME python.tools
    COMMAND ${PENSTOCK_ZARR3_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/test_tools.py
            --penstock $<TARGET_FILE:penstock-cli>)
  set_tests_properties(python.tools PROPERTIES LABELS python SKIP_RETURN_CODE 77 TIMEOUT 600)
endif()

# penstock ingest video against ffmpeg's command line; skips without ffmpeg, or where penstock has no FFmpeg.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_test(NAME python.ingest
  COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/test_ingest.py --penstock $<TARGET_FILE:penstock-cli>)
set_tests_properties(python.ingest PROPERTIES LABELS python SKIP_RETURN_CODE 77 TIMEOUT 600)

# penstock derive and penstock ingest --encode, with encoders of NumPy; the long part kills and hangs.
foreach(part encode encode_long)
  add_test(NAME python.${part}
    COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/test_encode.py --penstock $<TARGET_FILE:penstock-cli> --library $<TARGET_FILE:penstock>
            --encoder $<TARGET_FILE:penstock-bench-encoder>)
  set_tests_properties(python.${part} PROPERTIES LABELS python SKIP_RETURN_CODE 77 TIMEOUT 600)
  if(PENSTOCK_SANITIZE OR NOT BUILD_SHARED_LIBS) # an interpreter without sanitizers cannot load a library with them
    set_tests_properties(python.${part} PROPERTIES DISABLED TRUE)
  endif()
endforeach()
set_tests_properties(python.encode_long PROPERTIES LABELS "python;long" TIMEOUT 900 ENVIRONMENT PENSTOCK_TEST_LONG=1)

# penstock import parquet against pyarrow, and lerobot; a Python without pyarrow and zarr-python 3 (lerobot: and without ffmpeg) skips,
# saying why.
if(PENSTOCK_ZARR3_PYTHON)
  foreach(format parquet lerobot)
    add_test(NAME python.import_${format}
      COMMAND ${PENSTOCK_ZARR3_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/test_import_${format}.py
              --penstock $<TARGET_FILE:penstock-cli>)
    set_tests_properties(python.import_${format} PROPERTIES LABELS python SKIP_RETURN_CODE 77 TIMEOUT 600)
  endforeach()
endif()

# Ranges of dates by brute force, and by xarray; a Python without zarr-python 3 skips, saying why.
if(PENSTOCK_ZARR3_PYTHON)
  foreach(part dates dates_long)
    add_test(NAME python.${part}
      COMMAND ${PENSTOCK_ZARR3_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/test_dates.py --penstock $<TARGET_FILE:penstock-cli>)
    set_tests_properties(python.${part} PROPERTIES LABELS python SKIP_RETURN_CODE 77 TIMEOUT 600)
  endforeach()
  set_tests_properties(python.dates_long PROPERTIES LABELS "python;long" TIMEOUT 900 ENVIRONMENT PENSTOCK_TEST_RUNS=2000)
endif()

# Fields of other stores than the dataset's, and xarray's reindex() and align(); a Python without zarr-python 3 skips, saying why.
if(PENSTOCK_ZARR3_PYTHON)
  foreach(part field_stores field_stores_long)
    add_test(NAME python.${part}
      COMMAND ${PENSTOCK_ZARR3_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/test_field_stores.py --penstock $<TARGET_FILE:penstock-cli>)
    set_tests_properties(python.${part} PROPERTIES LABELS python SKIP_RETURN_CODE 77 TIMEOUT 600)
  endforeach()
  set_tests_properties(python.field_stores_long PROPERTIES LABELS "python;long" ENVIRONMENT PENSTOCK_TEST_LONG=1)
endif()
