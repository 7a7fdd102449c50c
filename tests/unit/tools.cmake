penstock_unit_test(tools slabs LINKS tools)
penstock_unit_test(tools advice LINKS tools)
