#!/usr/bin/env bash
# subproject.sh SOURCE_DIRECTORY COMPILER: below another project, by add_subdirectory(), Penstock leaves that project as it is.
# shellcheck source=tests/install/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source=$1 compiler=$2
cd "$scratch"

cp "$source/tests/install/consumer/main.c" .
cat >CMakeLists.txt <<CMAKE
cmake_minimum_required(VERSION 3.25...4.0)
project(parent LANGUAGES C)
set(PENSTOCK_TESTS OFF)
set(before "\${CMAKE_BUILD_TYPE},\${CMAKE_C_FLAGS},\${CMAKE_C_FLAGS_RELWITHDEBINFO},\${CMAKE_RUNTIME_OUTPUT_DIRECTORY},\${BUILD_SHARED_LIBS},\${BUILD_TESTING}")
set(PENSTOCK_MPI OFF)
add_subdirectory("$source" penstock EXCLUDE_FROM_ALL)
set(after "\${CMAKE_BUILD_TYPE},\${CMAKE_C_FLAGS},\${CMAKE_C_FLAGS_RELWITHDEBINFO},\${CMAKE_RUNTIME_OUTPUT_DIRECTORY},\${BUILD_SHARED_LIBS},\${BUILD_TESTING}")
if(NOT before STREQUAL after)
  message(FATAL_ERROR "before: \${before}, after: \${after}")
endif()
foreach(name IN ITEMS lint graph threads fuzz bench test_base_error PkgConfig::ZSTD)
  if(TARGET \${name})
    message(FATAL_ERROR "target \${name}")
  endif()
endforeach()
add_executable(consumer main.c)
target_link_libraries(consumer PRIVATE penstock::penstock)
CMAKE
cmake -S . -B build -G Ninja -DCMAKE_C_COMPILER="$compiler" >log 2>&1 || fail "as a subproject"
! grep -E '^(CMOCKA|Python3|BUILD_TESTING|BUILD_SHARED_LIBS|CLANG_FORMAT)' build/CMakeCache.txt || fail "in the parent's cache"
cmake --build build >log 2>&1 || fail "a parent's program is not built"
build/consumer >log || fail "a parent's program does not run"
! cmake --install build --prefix "$PWD/prefix" >log 2>&1 || [[ ! -e prefix ]] || fail "it is installed with the parent"
