penstock_unit_test(anchors build LINKS anchors)
