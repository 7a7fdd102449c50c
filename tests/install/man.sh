#!/usr/bin/env bash
# man.sh BUILD_DIRECTORY COMPILER: each program, each subcommand and each function of libpenstock has a manual page, which `install`
# installs; each option of --help is in its page, and man and mandoc find nothing wrong.
# shellcheck source=tests/install/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
build=$1

[[ -e $build/man/made ]] || skip "this build has no manual pages, which take Python"
wrong=0

complain() {
    echo "FAILED: $*" >&2
    wrong=1
}

cmake --install "$build" --prefix "$scratch/prefix" >/dev/null
man=$scratch/prefix/share/man

# options NAME PROGRAM...: those of its --help are those of its page.
options() {
    local page=$man/man1/$1.1 option text
    [[ -s $page ]] || { complain "there is no page $1.1" && return; }
    "${@:2}" --help | grep -oE '(^|[ ,])--[a-z][a-z-]+' | tr -d ' ,' | sort -u >"$scratch/options"
    text=$(tr -d '\\' <"$page")
    for option in $(<"$scratch/options"); do
        [[ $text == *"$option"* ]] || complain "$1.1 does not have $option"
    done
}

pages=0
for program in "$scratch"/prefix/bin/*; do
    name=$(basename "$program")
    options "$name" "$program"
    pages=$((pages + 1))
done
for command in $("$build/bin/penstock" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    options "penstock-$command" "$build/bin/penstock" "$command"
    pages=$((pages + 1))
done
((pages >= 9)) || complain "only $pages programs and commands"
if [[ -x $build/bin/penstock-reader ]]; then
    for option in $("$build/bin/penstock-reader" --help | sed -n '/^Options of the configuration/,$s/^  \([a-z]*\.[a-zA-Z_.]*\) .*/\1/p'); do
        grep -q "^\.B \"$option\"" "$man/man1/penstock-reader.1" || complain "penstock-reader.1 does not have $option"
    done
fi
for function in $(nm -D --defined-only "$build/lib/libpenstock.so" | awk '{ print $3 }'); do
    [[ $(<"$man/man3/$function.3") == ".so man3/libpenstock.3" ]] || complain "there is no page $function.3"
    grep -q "^\.SS $function\$" "$man/man3/libpenstock.3" || complain "libpenstock.3 says nothing of $function()"
done

for page in "$man"/man1/*.1 "$man"/man3/libpenstock.3; do
    if command -v mandoc >/dev/null; then
        found=$(mandoc -Tlint -Wwarning "$page") || complain "mandoc: $found"
    fi
    if command -v groff >/dev/null; then
        found=$(groff -man -ww -Tutf8 -z "$page" 2>&1)
        [[ ! $found ]] || complain "groff: $found"
    fi
done
command -v mandoc >/dev/null || echo "skipped: mandoc, which is not installed"
command -v groff >/dev/null || echo "skipped: groff, which is not installed"
exit "$wrong"
