# `install`, in components that find_package knows, too; and a build tree that find_package and pkg-config take as it is.
#
#     client    libpenstock, penstock.h, pkg-config's file: target penstock::penstock
#     cli       penstock: program penstock::cli
#     trainer   penstock-trainer: program penstock::trainer
#     reader    penstock-reader and penstock-run: programs penstock::reader and penstock::run
#     python    the Python package: variable penstock_PYTHON_DIR
#
# Each has a file penstock-<component>.cmake beside penstockConfig.cmake, which includes those that are there.
include(CMakePackageConfigHelpers)

option(PENSTOCK_INSTALL "have `install` install Penstock" ${PROJECT_IS_TOP_LEVEL})
option(PENSTOCK_INSTALL_PYTHON "install the Python package, too" OFF)
set(PENSTOCK_PYTHON_DIR "lib/python3/dist-packages" CACHE STRING
  "where the Python package goes below the prefix, with PENSTOCK_INSTALL_PYTHON")
if(PENSTOCK_INSTALL_PYTHON AND NOT BUILD_SHARED_LIBS)
  message(FATAL_ERROR "PENSTOCK_INSTALL_PYTHON needs BUILD_SHARED_LIBS=ON: Python loads libpenstock.so")
endif()
if(NOT PENSTOCK_INSTALL)
  return()
endif()
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/penstock)

# penstock_install(reader TARGET DESTINATION...): as that component, which the build tree has as well.
function(penstock_install component target)
  install(TARGETS ${target} EXPORT penstock-${component} COMPONENT ${component} ${ARGN})
  install(EXPORT penstock-${component} NAMESPACE penstock:: DESTINATION ${package_dir} COMPONENT ${component})
  export(EXPORT penstock-${component} NAMESPACE penstock:: FILE ${PROJECT_BINARY_DIR}/penstock-${component}.cmake)
endfunction()

penstock_install(client penstock
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  PUBLIC_HEADER DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
file(RELATIVE_PATH library_from_programs /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
foreach(component cli trainer reader)
  if(TARGET penstock-${component})
    set_target_properties(penstock-${component} PROPERTIES
      EXPORT_NAME ${component} INSTALL_RPATH "$ORIGIN/${library_from_programs}")
    penstock_install(${component} penstock-${component} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()
if(TARGET penstock-reader)
  install(PROGRAMS ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/penstock-run DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT reader)
  install(FILES launch/launchers.sh launch/mca.sh launch/nodes.sh launch/readers.sh launch/supervise.sh DESTINATION libexec/penstock COMPONENT reader)
  install(PROGRAMS launch/demo.sh DESTINATION libexec/penstock COMPONENT reader)
  install(FILES configs/quickstart.yaml DESTINATION libexec/penstock RENAME demo.yaml COMPONENT reader)
  install(TARGETS penstock-sieve DESTINATION libexec/penstock COMPONENT reader)
endif()

include(cmake/PenstockMan.cmake)

if(BUILD_SHARED_LIBS)
  file(WRITE ${PROJECT_BINARY_DIR}/penstock-python.cmake "set(penstock_PYTHON_DIR \"${PROJECT_SOURCE_DIR}/python\")\n")
endif()
if(PENSTOCK_INSTALL_PYTHON)
  install(DIRECTORY python/penstock DESTINATION ${PENSTOCK_PYTHON_DIR} COMPONENT python PATTERN "__pycache__" EXCLUDE)
  file(RELATIVE_PATH python_from_package /${package_dir} /${PENSTOCK_PYTHON_DIR})
  file(WRITE ${PROJECT_BINARY_DIR}/installed/penstock-python.cmake
    "cmake_path(SET penstock_PYTHON_DIR NORMALIZE \"\${CMAKE_CURRENT_LIST_DIR}/${python_from_package}\")\n")
  install(FILES ${PROJECT_BINARY_DIR}/installed/penstock-python.cmake DESTINATION ${package_dir} COMPONENT python)
endif()

configure_file(cmake/penstockConfig.cmake.in ${PROJECT_BINARY_DIR}/penstockConfig.cmake @ONLY)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/penstockConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/penstockConfig.cmake ${PROJECT_BINARY_DIR}/penstockConfigVersion.cmake
  DESTINATION ${package_dir} COMPONENT client)

# pkg-config takes penstock-uninstalled.pc before penstock.pc where it looks into the build tree.
set(private_libs)
if(NOT BUILD_SHARED_LIBS)
  set(private_libs " -lm -pthread")
endif()
set(prefix ${PROJECT_BINARY_DIR})
set(includedir ${PROJECT_SOURCE_DIR}/src/include)
set(libdir ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
configure_file(cmake/penstock.pc.in ${PROJECT_BINARY_DIR}/penstock-uninstalled.pc @ONLY)
file(RELATIVE_PATH prefix_from_pkgconfig /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
set(prefix "\${pcfiledir}/${prefix_from_pkgconfig}")
set(includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
set(libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
configure_file(cmake/penstock.pc.in ${PROJECT_BINARY_DIR}/penstock.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/penstock.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT client)

# penstock_install_test(static ARGUMENT...): tests/install/static.sh with these and the compiler as install.static.
function(penstock_install_test thing)
  add_test(NAME install.${thing} COMMAND ${PROJECT_SOURCE_DIR}/tests/install/${thing}.sh ${ARGN} ${CMAKE_C_COMPILER})
  set_tests_properties(install.${thing} PROPERTIES LABELS install SKIP_RETURN_CODE 77 TIMEOUT 600)
endfunction()

if(BUILD_TESTING)
  if(BUILD_SHARED_LIBS) # else install.static says the same
    penstock_install_test(consumer ${PROJECT_BINARY_DIR})
    penstock_install_test(components ${PROJECT_BINARY_DIR})
    penstock_install_test(man ${PROJECT_BINARY_DIR})
    penstock_install_test(packages ${PROJECT_BINARY_DIR})
    find_package(Python3 COMPONENTS Interpreter)
    if(Python3_FOUND)
      penstock_install_test(wheel ${PROJECT_BINARY_DIR} ${Python3_EXECUTABLE})
      penstock_install_test(pip ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR} ${Python3_EXECUTABLE})
      penstock_install_test(aarch64 ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR} ${Python3_EXECUTABLE})
      penstock_install_test(torchrun ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR} ${Python3_EXECUTABLE})
      penstock_install_test(image ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR} ${Python3_EXECUTABLE})
      set_tests_properties(install.pip install.aarch64 install.torchrun install.image PROPERTIES
        LABELS "install;long" TIMEOUT 3600 RESOURCE_LOCK wheels)
    endif()
  endif()
  penstock_install_test(configure ${PROJECT_SOURCE_DIR})
  penstock_install_test(release ${PROJECT_SOURCE_DIR})
  penstock_install_test(debian ${PROJECT_SOURCE_DIR})
  set_tests_properties(install.debian PROPERTIES LABELS "install;long" TIMEOUT 3600)
  penstock_install_test(static ${PROJECT_SOURCE_DIR})
  penstock_install_test(subproject ${PROJECT_SOURCE_DIR})
  set_property(TEST install.static install.subproject APPEND PROPERTY LABELS long) # they compile for a minute
endif()
