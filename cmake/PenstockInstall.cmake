# `install`: programs, libpenstock.so with its soname, penstock.h, a pkg-config file and a CMake package.
#
#     find_package(penstock REQUIRED)          pkg-config --cflags --libs penstock
#     target_link_libraries(x penstock::penstock)
include(CMakePackageConfigHelpers)

option(PENSTOCK_INSTALL_PYTHON "install the Python package, too" OFF)
set(PENSTOCK_PYTHON_DIR "lib/python3/dist-packages" CACHE STRING
  "where the Python package goes below the prefix, with PENSTOCK_INSTALL_PYTHON")
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/penstock)

# In the build tree the header lies among the sources; once installed, in the prefix.
set_target_properties(penstock PROPERTIES INTERFACE_INCLUDE_DIRECTORIES
  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src/include>;$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
install(TARGETS penstock EXPORT penstock
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  PUBLIC_HEADER DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT penstock NAMESPACE penstock:: FILE penstockTargets.cmake DESTINATION ${package_dir})

set(programs)
foreach(program penstock-cli penstock-trainer penstock-reader)
  if(TARGET ${program})
    list(APPEND programs ${program})
  endif()
endforeach()
file(RELATIVE_PATH library_from_programs /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
set_target_properties(${programs} PROPERTIES INSTALL_RPATH "$ORIGIN/${library_from_programs}")
install(TARGETS ${programs} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET penstock-reader)
  configure_file(launch/penstock-run ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/penstock-run @ONLY)
  set(libexec ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/../libexec/penstock)
  foreach(part nodes supervise)
    configure_file(launch/${part}.sh ${libexec}/${part}.sh COPYONLY)
    install(FILES launch/${part}.sh DESTINATION libexec/penstock)
  endforeach()
  add_executable(penstock-sieve launch/sieve.c)
  target_link_libraries(penstock-sieve PRIVATE penstock-options)
  set_target_properties(penstock-sieve PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${libexec})
  install(TARGETS penstock-sieve DESTINATION libexec/penstock)
  install(PROGRAMS ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/penstock-run DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

file(CONFIGURE OUTPUT penstockConfig.cmake @ONLY CONTENT
  "include(\"\${CMAKE_CURRENT_LIST_DIR}/penstockTargets.cmake\")\n")
write_basic_package_version_file(${PROJECT_BINARY_DIR}/penstockConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/penstockConfig.cmake
              ${PROJECT_BINARY_DIR}/penstockConfigVersion.cmake
  DESTINATION ${package_dir})

file(RELATIVE_PATH prefix_from_pkgconfig /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
file(CONFIGURE OUTPUT penstock.pc @ONLY CONTENT [[
prefix=${pcfiledir}/@prefix_from_pkgconfig@
includedir=${prefix}/@CMAKE_INSTALL_INCLUDEDIR@
libdir=${prefix}/@CMAKE_INSTALL_LIBDIR@

Name: penstock
Description: Batches of a Zarr dataset in shared memory: the library that trainers link
Version: @PROJECT_VERSION@
Cflags: -I${includedir}
Libs: -L${libdir} -lpenstock
]])
install(FILES ${PROJECT_BINARY_DIR}/penstock.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(PENSTOCK_INSTALL_PYTHON)
  install(DIRECTORY python/penstock DESTINATION ${PENSTOCK_PYTHON_DIR}
    PATTERN "__pycache__" EXCLUDE)
endif()

if(BUILD_TESTING)
  add_test(NAME install.consumer
    COMMAND ${PROJECT_SOURCE_DIR}/tests/install/run.sh ${PROJECT_BINARY_DIR} ${CMAKE_C_COMPILER})
  add_test(NAME install.configure
    COMMAND ${PROJECT_SOURCE_DIR}/tests/install/configure.sh ${PROJECT_SOURCE_DIR} ${CMAKE_C_COMPILER})
  set_tests_properties(install.consumer install.configure PROPERTIES LABELS install SKIP_RETURN_CODE 77 TIMEOUT 300)
endif()
