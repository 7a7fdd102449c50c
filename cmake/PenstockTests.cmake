# From here on BUILD_TESTING is ON or OFF. Where it is not given, tests are built if cmocka is there, which they need. Below another
# project none are: there it is about that project's.
if(PROJECT_IS_TOP_LEVEL AND DEFINED PENSTOCK_TESTS) # an older name
  if(PENSTOCK_TESTS STREQUAL "AUTO")
    message(NOTICE "PENSTOCK_TESTS is now BUILD_TESTING: without either, tests are built where cmocka is")
    unset(BUILD_TESTING CACHE)
  else()
    message(NOTICE "PENSTOCK_TESTS is now BUILD_TESTING: write -DBUILD_TESTING=${PENSTOCK_TESTS}")
    if(NOT PENSTOCK_TESTS OR NOT DEFINED BUILD_TESTING)
      set(BUILD_TESTING ${PENSTOCK_TESTS} CACHE BOOL "" FORCE)
    endif()
  endif()
  unset(PENSTOCK_TESTS CACHE)
endif()

if(NOT PROJECT_IS_TOP_LEVEL)
  set(BUILD_TESTING OFF)
elseif(BUILD_TESTING OR NOT DEFINED BUILD_TESTING)
  pkg_check_modules(CMOCKA QUIET IMPORTED_TARGET cmocka)
  if(NOT CMOCKA_FOUND AND BUILD_TESTING)
    message(FATAL_ERROR "BUILD_TESTING is ON, and tests need cmocka (Debian: libcmocka-dev)")
  elseif(NOT CMOCKA_FOUND)
    message(STATUS "no tests: cmocka is not there, which they need (Debian: libcmocka-dev)")
  endif()
  set(BUILD_TESTING ${CMOCKA_FOUND})
endif()

include(CMakeDependentOption)
cmake_dependent_option(PENSTOCK_FAULTS
  "stores that fail on purpose when PENSTOCK_FAULTS is set in the environment: for tests" ON BUILD_TESTING OFF)
