penstock_unit_test(zarr metadata LINKS zarr)
penstock_unit_test(zarr fill LINKS zarr)
penstock_unit_test(zarr chunk LINKS zarr)
penstock_unit_test(zarr shard LINKS zarr)
