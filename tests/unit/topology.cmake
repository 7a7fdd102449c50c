penstock_unit_test(topology placement LINKS topology)
penstock_unit_test(topology real THREADS LINKS topology)
penstock_unit_test(topology scattered LINKS topology)
penstock_unit_test(topology trainers LINKS topology)
