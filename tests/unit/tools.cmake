penstock_unit_test(tools slabs LINKS tools)
