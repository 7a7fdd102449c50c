# The Python package and penstock-trainer, both against a service that needs neither MPI nor a dataset.
set(tools ${CMAKE_CURRENT_LIST_DIR}/../tools)
add_executable(demo-server ${tools}/demo_server.c ${tools}/demo_groups.c ${tools}/demo_ragged.c)
target_link_libraries(demo-server PRIVATE penstock-options penstock-delivery-server penstock-delivery-ring penstock-mesh)

find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  set(extras_python ${Python3_EXECUTABLE})
  if(PENSTOCK_ZARR3_PYTHON)
    set(extras_python ${PENSTOCK_ZARR3_PYTHON})
  endif()
  foreach(thing client failures trainer torch torch_gpu torch_mesh jax ragged arrow groups)
    add_test(NAME python.${thing}
      COMMAND ${extras_python} ${CMAKE_CURRENT_LIST_DIR}/test_${thing}.py)
    set_tests_properties(python.${thing} PROPERTIES
      LABELS python SKIP_RETURN_CODE 77 TIMEOUT 600
      ENVIRONMENT "PYTHONPATH=${CMAKE_CURRENT_LIST_DIR}/../../python;PENSTOCK_LIBRARY=$<TARGET_FILE:penstock>;DEMO_SERVER=$<TARGET_FILE:demo-server>;PENSTOCK_TRAINER=$<TARGET_FILE:penstock-trainer>")
  endforeach()
  if(PENSTOCK_SANITIZE OR NOT BUILD_SHARED_LIBS)
    # An interpreter without sanitizers cannot load a library with them, and none loads a static one.
    set_tests_properties(python.client python.failures python.torch python.torch_gpu python.torch_mesh python.jax python.ragged python.arrow python.groups PROPERTIES DISABLED TRUE)
  endif()
endif()
