# Whether tests are built: from here on PENSTOCK_TESTS is ON or OFF.
if(NOT BUILD_TESTING)
  set(PENSTOCK_TESTS OFF)
endif()
if(PENSTOCK_TESTS)
  pkg_check_modules(CMOCKA QUIET IMPORTED_TARGET cmocka)
  if(NOT CMOCKA_FOUND AND PENSTOCK_TESTS STREQUAL "AUTO")
    message(STATUS "no tests: cmocka is not there, which they need (Debian: libcmocka-dev)")
    set(PENSTOCK_TESTS OFF)
  elseif(NOT CMOCKA_FOUND)
    message(FATAL_ERROR "PENSTOCK_TESTS is ${PENSTOCK_TESTS}, and tests need cmocka (Debian: libcmocka-dev)")
  else()
    set(PENSTOCK_TESTS ON)
  endif()
endif()

include(CMakeDependentOption)
cmake_dependent_option(PENSTOCK_FAULTS
  "stores that fail on purpose when PENSTOCK_FAULTS is set in the environment: for tests" ON PENSTOCK_TESTS OFF)
