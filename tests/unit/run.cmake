penstock_unit_test(run bad_list LINKS run)
penstock_unit_test(run setup LINKS run)
penstock_unit_test(run order LINKS run SYSTEM PkgConfig::XXHASH)
penstock_unit_test(run state LINKS run)
