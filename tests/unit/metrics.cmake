penstock_unit_test(metrics text LINKS metrics delivery base)
penstock_unit_test(metrics verdict LINKS metrics base)
penstock_unit_test(metrics page LINKS metrics delivery base)
penstock_unit_test(metrics series LINKS metrics base)
