penstock_unit_test(transform stage THREADS LINKS base transform delivery/ring delivery/server SYSTEM penstock)
