penstock_unit_test(mesh mesh LINKS mesh)
penstock_unit_test(mesh cut LINKS mesh)
