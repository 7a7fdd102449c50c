penstock_unit_test(anchors build LINKS anchors base)
penstock_unit_test(anchors split LINKS anchors base)
