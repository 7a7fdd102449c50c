# Parts of penstock-reader that need no MPI, or one that the test has.
penstock_unit_test(mpi log_json LINKS base)
target_sources(test_mpi_log_json PRIVATE ${PROJECT_SOURCE_DIR}/mpi/log_json.c)
target_include_directories(test_mpi_log_json PRIVATE ${PROJECT_SOURCE_DIR}/mpi)

penstock_unit_test(mpi pile THREADS LINKS base)
target_sources(test_mpi_pile PRIVATE ${PROJECT_SOURCE_DIR}/mpi/rounds/pile.c)
target_include_directories(test_mpi_pile PRIVATE ${PROJECT_SOURCE_DIR}/mpi)

# Those that need the header of MPI alone, or calls that the test has.
if(PENSTOCK_MPI)
  find_package(MPI REQUIRED COMPONENTS C)
  penstock_unit_test(mpi books LINKS base mesh SYSTEM MPI::MPI_C)
  target_sources(test_mpi_books PRIVATE ${PROJECT_SOURCE_DIR}/mpi/account/books.c ${PROJECT_SOURCE_DIR}/mpi/account/tally.c)
  target_include_directories(test_mpi_books PRIVATE ${PROJECT_SOURCE_DIR}/mpi)

  penstock_unit_test(mpi requests LINKS base SYSTEM MPI::MPI_C)
  target_sources(test_mpi_requests PRIVATE ${PROJECT_SOURCE_DIR}/mpi/ranks/requests.c)
  target_include_directories(test_mpi_requests PRIVATE ${PROJECT_SOURCE_DIR}/mpi)
endif()
