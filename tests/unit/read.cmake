penstock_unit_test(read load LINKS read)
penstock_unit_test(read pool LINKS read)
penstock_unit_test(read row_index LINKS read)
penstock_unit_test(read row_store LINKS read)
