penstock_unit_test(server ring_memory LINKS delivery server)
