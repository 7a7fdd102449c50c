penstock_unit_test(client environment LINKS client)
penstock_unit_test(client cursor_file THREADS LINKS client delivery run server)
penstock_unit_test(client sequences THREADS LINKS client delivery server)
penstock_unit_test(client rings THREADS LINKS client delivery server)
