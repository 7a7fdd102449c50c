/* The loops of convert.h for any machine. */
#define CONVERT_LOOPS convert_portable
#include "base/convert_loops.h"
