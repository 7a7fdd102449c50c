# Parts of programs that need no program.
penstock_unit_test(cli pace LINKS metrics base)
target_sources(test_cli_pace PRIVATE ${PROJECT_SOURCE_DIR}/src/cli/top/top_screen.c)
