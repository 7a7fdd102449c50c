penstock_unit_test(store directory LINKS store)
