penstock_unit_test(zarr chunk LINKS zarr)
