if(TARGET penstock-ingest)
  penstock_unit_test(ingest lists LINKS ingest)
  penstock_unit_test(ingest cuts LINKS ingest SYSTEM PkgConfig::FFMPEG)
endif()
