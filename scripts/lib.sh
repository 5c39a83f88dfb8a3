# What the scripts share; sourced, never run. It keeps to bash 3.2, which is what macOS ships.
# shellcheck shell=bash disable=SC2034 # the scripts that source this use the variables

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target_dir=${CARGO_TARGET_DIR:-$root/target}

# Tools that are built when they are not there; changing a version here is enough to get the new one.
nextest_version=0.9.143
cargo_deny_version=0.20.2
phoenix_version=20.26.1
pytest_version=8.4.2
zig_version=0.17.0
zigbuild_version=0.24.0
# The oldest compiler that builds the workspace: `rust-version` in Cargo.toml.
rust_version=1.91
# What `scripts/windows` tests by default, in the order of ARCHITECTURE.md.
windows_packages=(yb-figures yb-redact yb-supervise yb-yaml)
inspect_version=0.3.285
harbor_version=0.25.0
swebench_version=5.0.2

say() { printf '%s\n' "$*" >&2; }

# at_least FOUND WANTED: compares dotted version numbers.
at_least() {
  local IFS=. i
  # shellcheck disable=SC2206 # splitting at the dots is the point
  local found=($1) wanted=($2)
  for ((i = 0; i < ${#wanted[@]}; i++)); do
    if ((10#${found[i]:-0} != 10#${wanted[i]})); then
      ((10#${found[i]:-0} > 10#${wanted[i]}))
      return
    fi
  done
}

# version_of COMMAND [ARG…]: the first version number that the command prints; fails if there is none.
version_of() {
  local text
  text=$("$@" 2>/dev/null </dev/null) || return 1
  [[ $text =~ [0-9]+(\.[0-9]+)+ ]] && printf '%s\n' "${BASH_REMATCH[0]}"
}

missing=""

# want WHAT PROBLEM HINT: notes one missing prerequisite.
want() { missing+="  $1: $2"$'\n'"    hint: $3"$'\n'; }

# want_version NAME WANTED HINT: notes NAME when it is absent, broken or older than WANTED.
want_version() {
  local found
  if ! command -v "$1" >/dev/null; then
    want "$1 $2 or newer" "not found on PATH" "$3"
  elif ! found=$(version_of "$1" --version); then
    want "$1 $2 or newer" "\`$1 --version\` fails" "$3"
  elif ! at_least "$found" "$2"; then
    want "$1 $2 or newer" "found $found at $(command -v "$1")" "$3"
  fi
}

want_cargo() { want_version cargo "$rust_version" "install Rust from https://rustup.rs, or run \`rustup update stable\`"; }

want_git() { want_version git 2.39 "install git from your system's packages or https://git-scm.com"; }

# npm 7 is the first that reads our lock file.
want_node() {
  want_version node 18 "install Node.js from your system's packages or https://nodejs.org"
  want_version npm 7 "npm comes with Node.js; on Debian: apt-get install npm"
}

want_python() {
  want_version python3 3.10 "install Python from https://python.org; on Debian: apt-get install python3 python3-venv"
  # Debian ships `venv` without `ensurepip`, and then no environment can be made.
  if command -v python3 >/dev/null && ! python3 -c 'import ensurepip, venv' >/dev/null 2>&1; then
    want "python3 with venv" "\`import ensurepip, venv\` fails" "on Debian: apt-get install python3-venv"
  fi
}

# The default isolation of agents. Tests try it, so it is installed where that is possible without asking.
want_bubblewrap() {
  [[ $(uname -s) == Linux ]] || return 0
  if ! command -v bwrap >/dev/null && [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
    say "installing bubblewrap"
    apt-get install -y -qq bubblewrap >/dev/null 2>&1 ||
      { apt-get update -qq && apt-get install -y -qq bubblewrap; } >/dev/null 2>&1 || true
  fi
  want_version bwrap 0.8 "install bubblewrap from your system's packages; on Debian: apt-get install bubblewrap"
}

# The test that clicks through a report opens it in a browser.
want_chromium() {
  [[ $(uname -s) == Linux ]] || return 0
  local name
  for name in chromium chromium-browser google-chrome chrome; do
    ! command -v "$name" >/dev/null || return 0
  done
  if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
    say "installing chromium"
    apt-get install -y -qq chromium >/dev/null 2>&1 ||
      { apt-get update -qq && apt-get install -y -qq chromium; } >/dev/null 2>&1 || true
  fi
  command -v chromium >/dev/null ||
    want "chromium" "not found on PATH" "install Chromium from your system's packages; on Debian: apt-get install chromium"
}

# want_debian_tool COMMAND-OR-FILE PACKAGE: a program or file of a Debian package, which is installed where that is possible without asking.
want_debian_tool() {
  if command -v "$1" >/dev/null || [[ -e $1 ]]; then return 0; fi
  if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
    say "installing $2"
    apt-get install -y -qq --no-install-recommends "$2" >/dev/null 2>&1 ||
      { apt-get update -qq && apt-get install -y -qq --no-install-recommends "$2"; } >/dev/null 2>&1 || true
  fi
  command -v "$1" >/dev/null || [[ -e $1 ]] || want "$1" "not found" "on Debian: apt-get install $2"
}

# Test runners that the tests attack; `install_runners` installs those of Python and JavaScript.
want_runners() {
  [[ $(uname -s) == Linux ]] || return 0
  want_debian_tool go golang-go
  want_debian_tool rspec ruby-rspec
  want_debian_tool javac default-jdk-headless
  want_debian_tool /usr/share/java/junit-platform-console.jar junit5
  want_debian_tool phpunit phpunit
  want_debian_tool /bin/busybox busybox-static
}

# Signatures of runs are checked with it.
want_ssh_keygen() {
  [[ $(uname -s) != Linux ]] || want_debian_tool ssh-keygen openssh-client
}

# What the tests need; `scripts/test` installs the rest.
want_test_prerequisites() {
  want_bubblewrap
  want_chromium
  want_runners
  want_ssh_keygen
  want_cargo
  want_git
  want_node
  want_python
}

# want_component TOOL COMPONENT: a part of the Rust toolchain that minimal installations leave out.
want_component() {
  version_of cargo "$1" --version >/dev/null ||
    want "cargo $1" "\`cargo $1 --version\` fails" "rustup component add $2"
}

# Ends the script when something was noted.
stop_if_missing() {
  if [[ -n $missing ]]; then
    say "error: this machine lacks what \`$0\` needs"
    printf '%s' "$missing" >&2
    exit 1
  fi
}

# install_agents: all that the tests need.
install_agents() {
  install_from_npm all "the pinned agents (once; 1.3 GB)"
}

# install_claude: the one that the demo needs, unless all are there.
install_claude() {
  if ! is_installed all; then
    install_from_npm claude "the pinned Claude Code (once; 350 MB)" --omit=dev
  fi
}

# stamp WHAT: where it is written down which lock file was installed from.
stamp() { echo "$root/agents/node_modules/.installed-$1-$(uname -s)-$(uname -m)"; }

is_installed() { cmp -s "$root/agents/package-lock.json" "$(stamp "$1")"; }

# install_from_npm WHAT WORDS OPTION…: what agents/package.json pins, unless it is there. npm empties `node_modules`
# first, so the copy of the lock file that is written last also tells an interrupted installation.
install_from_npm() {
  local what=$1 words=$2
  shift 2
  if is_installed "$what"; then
    return
  fi
  say "installing $words into agents/node_modules"
  # opencode is on npm for Linux on x86_64 alone; elsewhere npm would refuse the others with it.
  [[ $(uname -sm) = "Linux x86_64" ]] || set -- --force "$@"
  # `--loglevel error` drops npm's warnings about settings and engines; the agents are native programs.
  (cd "$root/agents" && npm ci --ignore-scripts --no-audit --no-fund --loglevel error "$@") >&2
  cp "$root/agents/package-lock.json" "$(stamp "$what")"
}

# Installs what our statistics are compared with into an environment of its own. The stamp is written last, so that it also
# tells an interrupted installation.
install_statistics() {
  local home=$root/.tools/statistics wanted=("scipy>=1.11,<2" "statsmodels>=0.14,<1")
  if [[ $(cat "$home/.installed" 2>/dev/null) != "${wanted[*]}" ]]; then
    say "installing scipy and statsmodels into .tools/statistics (once)"
    rm -rf "$home"
    mkdir -p "$root/.tools"
    python3 -m venv "$home" >&2
    "$home/bin/python" -m pip install --quiet --disable-pip-version-check "${wanted[@]}" >&2
    printf '%s\n' "${wanted[*]}" >"$home/.installed"
  fi
}

# Sets `python_sdk` to an environment with the official Python SDK in the version that the conformance cases were written
# for. Installed from source, because the wheel contains a CLI of 400 MB. Tests call this at the same time, so it locks.
install_python_sdk() {
  local version=0.2.182
  python_sdk=$root/.tools/claude-agent-sdk-$version
  [[ ! -e $python_sdk/.installed ]] || return 0
  mkdir -p "$root/.tools"
  (
    if command -v flock >/dev/null; then flock 9; fi
    [[ ! -e $python_sdk/.installed ]] || exit 0
    say "installing claude-agent-sdk $version into .tools (once)"
    rm -rf "$python_sdk"
    python3 -m venv "$python_sdk" >&2
    "$python_sdk/bin/pip" install --quiet --disable-pip-version-check --no-binary claude-agent-sdk \
      "claude-agent-sdk==$version" >&2
    touch "$python_sdk/.installed"
  ) 9>"$python_sdk.lock"
}

# Installs Phoenix, a receiver of traces, into its own environment. An installation of more than ten minutes is a hang.
install_phoenix() {
  local home=$root/.tools/phoenix package=arize-phoenix==$phoenix_version limit=()
  if [[ $(cat "$home/.installed" 2>/dev/null) != "$package" ]]; then
    say "installing $package into .tools/phoenix (once; one to three minutes, 850 MB)"
    rm -rf "$home"
    mkdir -p "$root/.tools"
    python3 -m venv "$home" >&2
    if command -v timeout >/dev/null; then limit=(timeout 600); fi
    ${limit[@]+"${limit[@]}"} "$home/bin/python" -m pip install --quiet --disable-pip-version-check "$package" >&2
    printf '%s\n' "$package" >"$home/.installed"
  fi
}

# Installs the readers of exports. Harbor needs Python 3.12; its models, unpacked, do not.
install_formats() {
  local home=$root/.tools/formats
  local wanted=("inspect_ai==$inspect_version" "pandas>=2,<4" "polars>=1,<2" "duckdb>=1,<2" "pyarrow>=18" pydantic shortuuid toml
    typing_extensions)
  if [[ $(cat "$home/.installed" 2>/dev/null) != "${wanted[*]} $harbor_version $swebench_version" ]]; then
    say "installing inspect_ai, pandas, polars, duckdb and the models of Harbor into .tools/formats (once; 800 MB)"
    rm -rf "$home"
    mkdir -p "$home"
    python3 -m venv "$home/venv" >&2
    "$home/venv/bin/python" -m pip install --quiet --disable-pip-version-check "${wanted[@]}" >&2
    "$home/venv/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --python-version 3.12 \
      --only-binary :all: --dest "$home/wheels" "harbor==$harbor_version" "swebench==$swebench_version" >&2
    "$home/venv/bin/python" -m zipfile -e "$home"/wheels/harbor-*.whl "$home/harbor" >&2
    "$home/venv/bin/python" -m zipfile -e "$home"/wheels/swebench-*.whl "$home/swebench" >&2
    rm -rf "$home/wheels"
    printf '%s\n' "${wanted[*]} $harbor_version $swebench_version" >"$home/.installed"
  fi
}

# Installs the test runners that the tests attack. The stamp is written last, so that it also tells an interrupted
# installation.
install_runners() {
  local home=$root/.tools/runners package=pytest==$pytest_version lock=$root/scripts/runners/package-lock.json
  if [[ $(cat "$home/.installed" 2>/dev/null) != "$package $(cksum <"$lock")" ]]; then
    say "installing pytest, jest, mocha and vitest into .tools/runners (once; 90 MB)"
    rm -rf "$home"
    mkdir -p "$home"
    python3 -m venv "$home/venv" >&2
    "$home/venv/bin/python" -m pip install --quiet --disable-pip-version-check --target "$home/python" "$package" >&2
    rm -rf "$home/venv"
    cp "$root/scripts/runners/package.json" "$lock" "$home"
    # Not `npm ci`, which refuses a lock file without the optional packages of other platforms.
    (cd "$home" && npm install --ignore-scripts --no-audit --no-fund --loglevel error) >&2
    printf '%s\n' "$package $(cksum <"$lock")" >"$home/.installed"
  fi
}

# build_tool NAME VERSION [ARG…]: sets `tool` to the program in the ignored `.tools`, built once per version.
# Without optimization: it starts a few times, and building is what takes long.
build_tool() {
  local name=$1 version=$2 home=$root/.tools/$1-$2 build=$target_dir/tools
  shift 2
  tool=$home/bin/$name
  if [[ ! -x $tool ]]; then
    say "building $name $version into .tools (once; one to three minutes)"
    # From `/`, so that the settings of this workspace or of the caller's folder don't apply.
    (cd / && CARGO_PROFILE_DEV_DEBUG=0 cargo install "$name" --version "=$version" --locked --debug --quiet \
      --root "$home" --target-dir "$build" "$@") >&2
    rm -rf "$build"
  fi
}

# The suites of docs/design/security-tests.md that nextest runs, each defined by a regular expression for the names of its
# tests. Both nextest and grep read it.
test_suites="cheats escapes crash"

# suite_pattern NAME: the expression of a suite; fails for an unknown one.
suite_pattern() {
  case $1 in
    cheats | escapes) printf '(^|::)%s::\n' "$1" ;;
    crash)
      printf '%s' '^(host_killed|shim_loss|reap|resume|disk|crash)::|^signals::sig|^run::journal::tests::'
      printf '%s\n' '|killed_git|truncated_tape|rejects_truncated'
      ;;
    *) return 1 ;;
  esac
}

# count_suite NAME LOG: one line with the number of tests of a suite that ran and passed, from the output of nextest:
# `PASS [   1.234s] (1/9) package::binary test`. Fails if none ran or one did not pass.
count_suite() {
  local pattern names ran passed status='(TRY [0-9]+ )?[A-Z][A-Z0-9/ -]*'
  pattern=$(suite_pattern "$1")
  names=$(sed -nE "s/^ *($status) \\[ *[0-9.]+s\\] (\\([^)]*\\) )?([^ ]+) ([^ ]+)\$/\\5 \\4 \\1/p" "$2" | grep -E -- "$pattern" || true)
  ran=$(printf '%s' "$names" | awk 'NF { print $1, $2 }' | sort -u | wc -l)
  passed=$(printf '%s' "$names" | awk '$3 == "PASS" || $3 == "FLAKY" { print $1, $2 }' | sort -u | wc -l)
  printf '%s: %d tests, %d passed\n' "$1" "$ran" "$passed"
  ((ran > 0 && ran == passed))
}

# not_run REASON: ends a step that this machine can't run. `.ci/run` lists it as not run.
not_run() {
  say "not run: $1"
  exit 77
}

# use_debian_rust COMMAND PACKAGE…: prepares cross compilation with Debian's Rust, which comes with the sources of the standard library,
# so that no other toolchain is needed. COMMAND shows that the other PACKAGEs are installed.
use_debian_rust() {
  local probe=$1 packages=(rustc-web cargo-web rust-web-src "${@:2}")
  if ! has_debian_rust "$probe"; then
    if ! command -v apt-get >/dev/null; then
      not_run "needs Debian's packages ${packages[*]}"
    elif [[ $(id -u) -ne 0 ]]; then
      not_run "needs \`apt-get install ${packages[*]}\` as root"
    fi
    say "installing ${packages[*]}"
    local apt=(apt-get --quiet --quiet --option DPkg::Lock::Timeout=120 --option Dpkg::Use-Pty=0)
    export DEBIAN_FRONTEND=noninteractive
    # `--no-remove`: a compiler that is there already is not ours to replace.
    if ! { "${apt[@]}" update && "${apt[@]}" install --yes --no-install-recommends --no-remove "${packages[@]}"; } \
      </dev/null >&2; then
      not_run "apt-get can't install ${packages[*]}"
    elif ! has_debian_rust "$probe"; then
      not_run "this Debian has no rustc-web and cargo-web of $rust_version or newer"
    fi
  fi
  export RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1
}

has_debian_rust() {
  local found
  [[ -f /usr/lib/rustlib/src/rust/library/Cargo.lock ]] &&
    command -v "$1" >/dev/null &&
    found=$(version_of /usr/bin/rustc --version) && at_least "$found" "$rust_version" &&
    found=$(version_of /usr/bin/cargo --version) && at_least "$found" "$rust_version"
}

# install_zig: sets `zig` to a directory with `zig`, a C compiler and linker for all systems, and `cargo-zigbuild`.
install_zig() {
  local home=$root/.tools/zig wanted=("ziglang==$zig_version" "cargo-zigbuild==$zigbuild_version")
  zig=$home/bin
  if [[ $(cat "$home/.installed" 2>/dev/null) != "${wanted[*]}" ]]; then
    say "installing ${wanted[*]} into .tools/zig (once; 400 MB)"
    rm -rf "$home"
    mkdir -p "$root/.tools"
    python3 -m venv "$home" >&2
    "$zig/python" -m pip install --quiet --disable-pip-version-check "${wanted[@]}" >&2
    printf '#!/bin/sh\nexec "%s" -m ziglang "$@"\n' "$zig/python" >"$zig/zig"
    chmod +x "$zig/zig"
    printf '%s\n' "${wanted[*]}" >"$home/.installed"
  fi
}
