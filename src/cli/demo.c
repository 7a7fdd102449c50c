/* `penstock demo`: becomes the script demo.sh, which has its options. */
#include "cli/commands.h"
#include "cli/common/cli.h"
#include "cli/doctor/doctor.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where the script is: in the installation that penstock-run is of. */
static bool find_script(char ret_path[DOCTOR_PATH_BYTES])
{
    char program[DOCTOR_PATH_BYTES];
    if (!doctor_find_program("penstock-run", program))
        return false;
    char *real = realpath(program, NULL);
    int length = real ? snprintf(ret_path, DOCTOR_PATH_BYTES, "%s/../libexec/penstock/demo.sh",
                                 dirname(real))
                      : -1;
    free(real);
    return length > 0 && length < DOCTOR_PATH_BYTES && access(ret_path, X_OK) == 0;
}

int cli_demo(int argc, char **argv)
{
    char script[DOCTOR_PATH_BYTES];
    (void)argc;
    if (!find_script(script)) {
        fprintf(stderr,
                "penstock demo: there is no penstock-run with its libexec/penstock/demo.sh, "
                "neither beside penstock nor in PATH: install the package of readers\n");
        return EXIT_FINAL;
    }
    argv[0] = script;
    execv(script, argv);
    fprintf(stderr, "penstock demo: cannot start '%s': %s\n", script, strerror(errno));
    return EXIT_FAILURE;
}
