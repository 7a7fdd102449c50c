penstock_unit_test(codec roundtrip LINKS codec SYSTEM PkgConfig::JSON_C)
penstock_unit_test(codec corrupt LINKS codec SYSTEM PkgConfig::JSON_C)
penstock_unit_test(codec vectors LINKS codec SYSTEM PkgConfig::JSON_C)
penstock_unit_test(codec unshuffle LINKS codec)
