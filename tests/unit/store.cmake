penstock_unit_test(store directory LINKS store)
penstock_unit_test(store disk_cache LINKS store)
penstock_unit_test(store watch LINKS store)
