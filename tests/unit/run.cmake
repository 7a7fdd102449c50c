penstock_unit_test(run bad_report LINKS run)
penstock_unit_test(run setup LINKS run)
penstock_unit_test(run state LINKS run)
