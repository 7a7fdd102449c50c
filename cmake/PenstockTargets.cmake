# One static library for each folder of src/. It sees the headers of all folders, may use those that docs/inside/design.md lists
# it with, and links these alone.
add_library(penstock-options INTERFACE)
target_compile_options(penstock-options INTERFACE
  -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla
  -Wformat=2 -fno-common -UNDEBUG # assertions stay on, whatever the build type
  $<$<BOOL:${PENSTOCK_WERROR}>:-Werror>)
target_compile_definitions(penstock-options INTERFACE _GNU_SOURCE)
target_include_directories(penstock-options INTERFACE ${PROJECT_SOURCE_DIR}/src
                                                      ${PROJECT_SOURCE_DIR}/src/include)
target_link_libraries(penstock-options INTERFACE Threads::Threads)
# gcc 12 makes no vector code of loops at -O2, which RelWithDebInfo and packages ask for.
if(NOT PENSTOCK_SANITIZE)
  target_compile_options(penstock-options INTERFACE $<$<NOT:$<CONFIG:Debug,MinSizeRel>>:-O3>)
else()
  # With -O2 compiling takes half as long again, and tests no less.
  target_compile_options(penstock-options INTERFACE -O1 -g1 -fsanitize=${PENSTOCK_SANITIZE}
    -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  target_link_options(penstock-options INTERFACE -fsanitize=${PENSTOCK_SANITIZE})
endif()

# For tests' own code, linked behind penstock-options: compiling takes most of the time, and running none.
add_library(penstock-unoptimized INTERFACE)
target_compile_options(penstock-unoptimized INTERFACE -O0 -U_FORTIFY_SOURCE)

set(PENSTOCK_LINK_ALONE OFF)
if(BUILD_TESTING AND NOT PENSTOCK_SANITIZE AND NOT PENSTOCK_FUZZ)
  set(PENSTOCK_LINK_ALONE ON)
endif()

# penstock_targets(VARIABLE base delivery/ring): penstock-base penstock-delivery-ring.
function(penstock_targets variable)
  list(TRANSFORM ARGN PREPEND penstock-)
  list(TRANSFORM ARGN REPLACE "/" "-")
  set(${variable} ${ARGN} PARENT_SCOPE)
endfunction()

# penstock_library(plan SOURCES order.c ... LINKS base ... SYSTEM PkgConfig::HWLOC ...): LINKS are the folders of its row in
# docs/inside/design.md, which structure.links compares.
function(penstock_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS;SYSTEM" ${ARGN})
  string(REPLACE "/" "-" target penstock-${name})
  penstock_targets(links ${ARG_LINKS})
  add_library(${target} STATIC ${ARG_SOURCES})
  target_link_libraries(${target} PRIVATE penstock-options ${links} ${ARG_SYSTEM})
  if(PENSTOCK_LINK_ALONE)
    penstock_link_alone(${target}-alone ${target})
  endif()
endfunction()

# penstock_link_alone(TARGET penstock-plan [SOURCE...]): the folder with nothing but what it is listed with, and what these are. A program
# links all folders, so that there a call up would find what it wants, if the order of archives has it so; here it does not.
# Nobody loads what comes of it.
function(penstock_link_alone target folder)
  get_target_property(links ${folder} LINK_LIBRARIES)
  add_library(${target} SHARED $<TARGET_OBJECTS:${folder}> ${ARGN})
  target_link_libraries(${target} PRIVATE ${links})
  target_link_options(${target} PRIVATE -Wl,--no-undefined -Wl,--strip-debug)
  set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/structure)
endfunction()

# penstock_unit_test(plan permutation LINKS plan): tests/unit/test_plan_permutation.c as unit.plan.permutation.
# THREADS: what it tests has several, so that ThreadSanitizer has something to find; target `threads` builds these.
if(BUILD_TESTING)
  add_custom_target(threads)
endif()
function(penstock_unit_test module thing)
  cmake_parse_arguments(ARG "THREADS" "" "LINKS;SYSTEM" ${ARGN})
  set(target test_${module}_${thing})
  add_executable(${target} ${target}.c)
  penstock_targets(links ${ARG_LINKS})
  target_link_libraries(${target} PRIVATE penstock-options penstock-unoptimized ${links} ${ARG_SYSTEM} PkgConfig::CMOCKA)
  add_test(NAME unit.${module}.${thing} COMMAND ${target})
  set_tests_properties(unit.${module}.${thing} PROPERTIES
    LABELS unit SKIP_RETURN_CODE 77 TIMEOUT 600
    ENVIRONMENT TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/sanitizers/tsan.supp)
  if(ARG_THREADS)
    add_dependencies(threads ${target})
    set_property(TEST unit.${module}.${thing} APPEND PROPERTY LABELS threads)
  endif()
endfunction()
