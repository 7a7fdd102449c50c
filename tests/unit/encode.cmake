penstock_unit_test(encode processes LINKS encode base)
penstock_unit_test(encode hostile THREADS LINKS encode delivery)
