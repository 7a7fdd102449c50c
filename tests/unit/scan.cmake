penstock_unit_test(scan slabs LINKS scan)
penstock_unit_test(scan advice LINKS scan)
