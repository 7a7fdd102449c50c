# `cmake --build DIR --target lint`: formatting, clang-tidy and cppcheck over all of our C. Each stops at what it
# finds; none changes a file.
#
#     lint-format    clang-format --dry-run, by .clang-format
#     lint-tidy      clang-tidy, by .clang-tidy
#     lint-cppcheck  cppcheck over the compilation database
#     lint-analyze   gcc -fanalyzer, by analyze.py
#
# `--target graph` draws docs/inside/architecture anew: folders and files, and what they include.
foreach(tool clang-format run-clang-tidy cppcheck gcc python3)
  string(TOUPPER ${tool} variable)
  string(REPLACE "-" "_" variable ${variable})
  find_program(${variable} NAMES ${tool} ${tool}-14 ${tool}-12 DOC "for the lint targets")
  mark_as_advanced(${variable})
endforeach()

cmake_host_system_information(RESULT lint_jobs QUERY NUMBER_OF_LOGICAL_CORES)
set(lint_folders src mpi launch tests bench)

# developer_target(lint-format CLANG_FORMAT COMMAND...): without the program, a target that says so and fails.
function(developer_target name program)
  if(${program})
    add_custom_target(${name} COMMAND ${ARGN} VERBATIM WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  else()
    string(TOLOWER ${program} package)
    string(REPLACE "_" "-" package ${package})
    add_custom_target(${name} VERBATIM
      COMMAND ${CMAKE_COMMAND} -E echo "${name} needs ${package}: install it, then configure again"
      COMMAND ${CMAKE_COMMAND} -E false)
  endif()
endfunction()

developer_target(lint-format CLANG_FORMAT
  find ${lint_folders} -name "*.[ch]" -exec ${CLANG_FORMAT} --dry-run -Werror {} +)
developer_target(lint-tidy RUN_CLANG_TIDY
  ${RUN_CLANG_TIDY} -quiet -p ${PROJECT_BINARY_DIR} -j ${lint_jobs} "^${PROJECT_SOURCE_DIR}/(src|mpi|launch|bench)/")
developer_target(lint-cppcheck CPPCHECK
  ${CPPCHECK} --project=${PROJECT_BINARY_DIR}/compile_commands.json -j ${lint_jobs} --quiet
  --enable=warning,performance,portability --inline-suppr --error-exitcode=1
  --cppcheck-build-dir=${PROJECT_BINARY_DIR}/cppcheck)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/cppcheck)
developer_target(lint-analyze GCC
  ${PYTHON3} cmake/analyze.py ${GCC} ${PROJECT_BINARY_DIR} ${lint_jobs} src mpi launch bench)
developer_target(graph PYTHON3
  ${PYTHON3} -B tests/structure/graph.py .)
add_custom_target(lint DEPENDS lint-format lint-tidy lint-cppcheck lint-analyze)
