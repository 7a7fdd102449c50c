penstock_unit_test(server ring_memory LINKS delivery/ring delivery/server)
