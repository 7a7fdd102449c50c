# Parts of penstock-reader that need no MPI.
penstock_unit_test(mpi log_json LINKS base)
target_sources(test_mpi_log_json PRIVATE ${PROJECT_SOURCE_DIR}/mpi/log_json.c)
target_include_directories(test_mpi_log_json PRIVATE ${PROJECT_SOURCE_DIR}/mpi)
