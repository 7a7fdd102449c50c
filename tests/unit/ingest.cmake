if(TARGET penstock-workshop AND FFMPEG_FOUND)
  penstock_unit_test(ingest lists LINKS workshop)
  penstock_unit_test(ingest segments LINKS workshop SYSTEM PkgConfig::FFMPEG)
endif()
