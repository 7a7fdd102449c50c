# One static library per folder of src/. It sees the headers of all folders, and may call those that docs/design.md lists
# it with: the test structure.calls looks.
add_library(penstock-options INTERFACE)
target_compile_options(penstock-options INTERFACE
  -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla
  -Wformat=2 -fno-common
  $<$<BOOL:${PENSTOCK_WERROR}>:-Werror>)
target_compile_definitions(penstock-options INTERFACE _GNU_SOURCE)
target_include_directories(penstock-options INTERFACE ${PROJECT_SOURCE_DIR}/src
                                                      ${PROJECT_SOURCE_DIR}/src/include)
target_link_libraries(penstock-options INTERFACE Threads::Threads)
if(PENSTOCK_SANITIZE)
  target_compile_options(penstock-options INTERFACE -fsanitize=${PENSTOCK_SANITIZE}
    -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  target_link_options(penstock-options INTERFACE -fsanitize=${PENSTOCK_SANITIZE})
endif()

# penstock_library(plan SOURCES order.c ... LINKS base ... SYSTEM PkgConfig::HWLOC ...)
function(penstock_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS;SYSTEM" ${ARGN})
  add_library(penstock-${name} STATIC ${ARG_SOURCES})
  list(TRANSFORM ARG_LINKS PREPEND penstock-)
  target_link_libraries(penstock-${name} PUBLIC penstock-options ${ARG_LINKS} PRIVATE ${ARG_SYSTEM})
endfunction()

# penstock_unit_test(plan permutation LINKS plan): tests/unit/test_plan_permutation.c as unit.plan.permutation.
# THREADS: what it tests has several, so that ThreadSanitizer has something to find; target `threads` builds these.
add_custom_target(threads)
function(penstock_unit_test module thing)
  cmake_parse_arguments(ARG "THREADS" "" "LINKS;SYSTEM" ${ARGN})
  set(target test_${module}_${thing})
  add_executable(${target} ${target}.c)
  list(TRANSFORM ARG_LINKS PREPEND penstock-)
  target_link_libraries(${target} PRIVATE ${ARG_LINKS} ${ARG_SYSTEM} PkgConfig::CMOCKA)
  add_test(NAME unit.${module}.${thing} COMMAND ${target})
  set_tests_properties(unit.${module}.${thing} PROPERTIES
    LABELS unit SKIP_RETURN_CODE 77 TIMEOUT 300)
  if(ARG_THREADS)
    add_dependencies(threads ${target})
    set_property(TEST unit.${module}.${thing} APPEND PROPERTY LABELS threads)
  endif()
endfunction()
