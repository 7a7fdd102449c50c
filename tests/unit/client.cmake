penstock_unit_test(client environment LINKS client)
