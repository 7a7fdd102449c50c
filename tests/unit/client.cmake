# libpenstock.so shows its public names alone: what is inside is compiled into the test.
penstock_unit_test(client environment LINKS delivery)
target_sources(test_client_environment PRIVATE ${PROJECT_SOURCE_DIR}/src/client/environment.c)
