# Manual pages of all programs and of libpenstock, made by packaging/man.py from --help and penstock.h, and installed with what they are of.
# Where there is no Python, or programs cannot run here, there are none.
option(PENSTOCK_MAN "make manual pages, which takes Python" ON)
find_program(PENSTOCK_MAN_PYTHON python3 DOC "for manual pages")
mark_as_advanced(PENSTOCK_MAN_PYTHON)
if(NOT PENSTOCK_MAN OR NOT PENSTOCK_MAN_PYTHON OR PENSTOCK_SANITIZE OR CMAKE_CROSSCOMPILING)
  return()
endif()

set(man_arguments)
set(man_programs cli trainer)
if(TARGET penstock-reader)
  list(APPEND man_programs reader)
  set(man_arguments reader=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/penstock-run)
endif()
foreach(component IN LISTS man_programs)
  list(APPEND man_arguments ${component}=$<TARGET_FILE:penstock-${component}>)
endforeach()
set(man_headers ${PROJECT_SOURCE_DIR}/src/include/penstock.h ${PROJECT_SOURCE_DIR}/src/include/penstock_transform.h)
list(TRANSFORM man_headers PREPEND client= OUTPUT_VARIABLE man_clients)
list(TRANSFORM man_programs PREPEND penstock- OUTPUT_VARIABLE man_targets)
add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/man/made
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${PROJECT_BINARY_DIR}/man
  COMMAND ${PENSTOCK_MAN_PYTHON} -B ${PROJECT_SOURCE_DIR}/packaging/man.py ${PROJECT_VERSION} ${PROJECT_BINARY_DIR}/man
          ${man_clients} ${man_arguments}
  COMMAND ${CMAKE_COMMAND} -E touch ${PROJECT_BINARY_DIR}/man/made
  DEPENDS ${man_targets} ${man_headers} ${PROJECT_SOURCE_DIR}/packaging/man.py ${PROJECT_SOURCE_DIR}/launch/penstock-run
  COMMENT "Making manual pages" VERBATIM)
add_custom_target(penstock-man ALL DEPENDS ${PROJECT_BINARY_DIR}/man/made)
foreach(component client ${man_programs})
  # Optional: somebody may have built one target alone, which has no pages then.
  install(DIRECTORY ${PROJECT_BINARY_DIR}/man/${component}/ DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT ${component} OPTIONAL)
endforeach()
