penstock_unit_test(dataset open LINKS dataset)
penstock_unit_test(dataset pack LINKS dataset)
penstock_unit_test(dataset cache LINKS dataset)
penstock_unit_test(dataset mask LINKS dataset)
