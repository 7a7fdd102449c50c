penstock_unit_test(base error LINKS base)
penstock_unit_test(base size LINKS base)
penstock_unit_test(base waker LINKS base)
