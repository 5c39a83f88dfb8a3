#!/bin/sh
# Installs yb from a release, for example:
#   curl -fsSL https://github.com/youbencha/youbencha/releases/latest/download/install.sh | sh
#
# YB_VERSION      the release, such as 0.1.0 [default: the latest]
# YB_INSTALL_DIR  where the program goes [default: ~/.local/bin]
# YB_DOWNLOAD_URL directory with the files of one release, instead of GitHub
set -eu

fail() {
  echo "error: $1" >&2
  [ -z "${2:-}" ] || echo "hint: $2" >&2
  exit 1
}

# Everything is a function, so that a download that was cut off runs nothing.
main() {
  case "$(uname -s)-$(uname -m)" in
    Linux-x86_64) target=x86_64-unknown-linux-musl ;;
    Linux-aarch64 | Linux-arm64) target=aarch64-unknown-linux-musl ;;
    Darwin-x86_64) target=x86_64-apple-darwin ;;
    Darwin-arm64) target=aarch64-apple-darwin ;;
    *) fail "no release for $(uname -s) on $(uname -m)" "build it: cargo install --locked youbencha" ;;
  esac
  releases=https://github.com/youbencha/youbencha/releases
  if [ -n "${YB_DOWNLOAD_URL:-}" ]; then
    url=$YB_DOWNLOAD_URL
  elif [ -n "${YB_VERSION:-}" ]; then
    url=$releases/download/v${YB_VERSION#v}
  else
    url=$releases/latest/download
  fi
  directory=${YB_INSTALL_DIR:-$HOME/.local/bin}

  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  download "$url/SHA256SUMS" "$scratch/SHA256SUMS"
  # The list has the names of the release's files, and so its version.
  line=$(grep -- "-$target.tar.gz\$" "$scratch/SHA256SUMS") || fail "the release has no archive for $target"
  archive=${line##* }
  download "$url/$archive" "$scratch/$archive"
  (cd "$scratch" && echo "$line" | check_sum) || fail "$archive does not have the checksum of the release" "try again; if it stays, report it"

  tar -xzf "$scratch/$archive" -C "$scratch"
  mkdir -p "$directory"
  # A running program is replaced, not overwritten.
  mv -f "$scratch/${archive%.tar.gz}/yb" "$directory/yb.new.$$"
  mv -f "$directory/yb.new.$$" "$directory/yb"
  ln -sf yb "$directory/youbencha"
  echo "installed $("$directory/yb" --version) to $directory"
  case ":$PATH:" in
    *":$directory:"*) ;;
    *) echo "hint: add $directory to PATH" ;;
  esac
  echo "next: yb doctor"
}

download() {
  if command -v curl >/dev/null; then
    curl -fsSL -o "$2" "$1" || fail "failed to download $1"
  elif command -v wget >/dev/null; then
    wget -q -O "$2" "$1" || fail "failed to download $1"
  else
    fail "neither curl nor wget is installed"
  fi
}

check_sum() {
  if command -v sha256sum >/dev/null; then
    sha256sum -c - >/dev/null
  else
    shasum -a 256 -c - >/dev/null
  fi
}

main
