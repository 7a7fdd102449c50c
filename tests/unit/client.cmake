penstock_unit_test(client environment LINKS client)
penstock_unit_test(client cursor_file THREADS LINKS client delivery run server)
penstock_unit_test(client sequences THREADS LINKS client delivery server)
penstock_unit_test(client rings THREADS LINKS client delivery server)
add_library(fake-cuda SHARED fake_cuda.c)
target_link_libraries(fake-cuda PRIVATE penstock-options)
set_target_properties(fake-cuda PROPERTIES OUTPUT_NAME cuda SOVERSION 1
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/fake-cuda C_VISIBILITY_PRESET default)
penstock_unit_test(client cuda THREADS LINKS client delivery server SYSTEM fake-cuda)
