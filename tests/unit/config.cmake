penstock_unit_test(config yaml LINKS config)
penstock_unit_test(config sources LINKS config)
penstock_unit_test(config mix LINKS config)
penstock_unit_test(config ragged LINKS config)
