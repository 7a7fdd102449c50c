penstock_unit_test(encode processes LINKS workshop base)
penstock_unit_test(encode hostile THREADS LINKS workshop delivery/ring)
