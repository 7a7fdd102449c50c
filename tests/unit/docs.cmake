penstock_unit_test(docs configuration LINKS config)
target_compile_definitions(test_docs_configuration PRIVATE PENSTOCK_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
penstock_unit_test(docs metrics LINKS metrics base)
target_compile_definitions(test_docs_metrics PRIVATE PENSTOCK_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
