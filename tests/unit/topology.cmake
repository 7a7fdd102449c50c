penstock_unit_test(topology place LINKS topology)
penstock_unit_test(topology real LINKS topology)
penstock_unit_test(topology trainers LINKS topology)
