# `cmake --build DIR --target lint`: formatting, clang-tidy and cppcheck over all of our C. Each stops at what it
# finds; none changes a file.
#
#     lint-format    clang-format --dry-run, by .clang-format
#     lint-tidy      clang-tidy, by .clang-tidy
#     lint-cppcheck  cppcheck over the compilation database
#     lint-analyze   gcc -fanalyzer, by analyze.py
foreach(tool clang-format run-clang-tidy cppcheck gcc python3)
  string(TOUPPER ${tool} variable)
  string(REPLACE "-" "_" variable ${variable})
  find_program(${variable} NAMES ${tool} ${tool}-14 ${tool}-12 DOC "for the lint targets")
  mark_as_advanced(${variable})
endforeach()

cmake_host_system_information(RESULT lint_jobs QUERY NUMBER_OF_LOGICAL_CORES)
set(lint_folders src mpi launch tests bench)

# lint_target(format CLANG_FORMAT COMMAND...): without the program, a target that says so and fails.
function(lint_target name program)
  if(${program})
    add_custom_target(lint-${name} COMMAND ${ARGN} VERBATIM WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  else()
    add_custom_target(lint-${name} VERBATIM
      COMMAND ${CMAKE_COMMAND} -E echo "lint-${name}: install clang-format, clang-tidy, cppcheck and gcc, then configure again"
      COMMAND ${CMAKE_COMMAND} -E false)
  endif()
endfunction()

lint_target(format CLANG_FORMAT
  find ${lint_folders} -name "*.[ch]" -exec ${CLANG_FORMAT} --dry-run -Werror {} +)
lint_target(tidy RUN_CLANG_TIDY
  ${RUN_CLANG_TIDY} -quiet -p ${PROJECT_BINARY_DIR} -j ${lint_jobs} "^${PROJECT_SOURCE_DIR}/(src|mpi|launch|bench)/")
lint_target(cppcheck CPPCHECK
  ${CPPCHECK} --project=${PROJECT_BINARY_DIR}/compile_commands.json -j ${lint_jobs} --quiet
  --enable=warning,performance,portability --inline-suppr --error-exitcode=1
  --cppcheck-build-dir=${PROJECT_BINARY_DIR}/cppcheck)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/cppcheck)
lint_target(analyze GCC
  ${PYTHON3} cmake/analyze.py ${GCC} ${PROJECT_BINARY_DIR} ${lint_jobs} src mpi launch bench)
add_custom_target(lint DEPENDS lint-format lint-tidy lint-cppcheck lint-analyze)
