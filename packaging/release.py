"""What all packages have in common: version, targets, and archives that are the same bytes whenever they are made."""

import gzip
import hashlib
import io
import os
import re
import subprocess
import tarfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOMEPAGE = "https://github.com/youbencha/youbencha"
SUMMARY = "Run, benchmark and regression-test coding agents"
# Both are MIT or Apache-2.0; packages contain both texts.
LICENSE = "MIT OR Apache-2.0"
LICENSE_FILES = ["LICENSE-MIT", "LICENSE-APACHE"]


@dataclass(frozen=True)
class Target:
    """A platform in the names of each packaging system."""

    triple: str
    npm_os: str
    npm_cpu: str
    wheel_tags: tuple
    debian: str = ""
    rpm: str = ""

    @property
    def program(self):
        return "yb.exe" if self.npm_os == "win32" else "yb"

    @property
    def npm_name(self):
        return f"@youbencha/{self.npm_os}-{self.npm_cpu}"


TARGETS = [
    # A static program runs on every Linux, so one wheel has the tags of glibc and of musl.
    Target("x86_64-unknown-linux-musl", "linux", "x64",
           ("manylinux_2_17_x86_64", "manylinux2014_x86_64", "musllinux_1_1_x86_64"), "amd64", "x86_64"),
    Target("aarch64-unknown-linux-musl", "linux", "arm64",
           ("manylinux_2_17_aarch64", "manylinux2014_aarch64", "musllinux_1_1_aarch64"), "arm64", "aarch64"),
    Target("x86_64-pc-windows-gnu", "win32", "x64", ("win_amd64",)),
    Target("x86_64-apple-darwin", "darwin", "x64", ("macosx_10_12_x86_64",)),
    Target("aarch64-apple-darwin", "darwin", "arm64", ("macosx_11_0_arm64",)),
]


def target(triple):
    """The target of this name, or an error that names all."""
    for known in TARGETS:
        if known.triple == triple:
            return known
    names = ", ".join(known.triple for known in TARGETS)
    raise SystemExit(f"error: unknown target: `{triple}`; expected one of {names}")


def version():
    manifest = (ROOT / "Cargo.toml").read_text()
    return re.search(r'^\[workspace\.package\]\nversion = "([^"]+)"', manifest, re.MULTILINE)[1]


def epoch():
    """The time in all archives: SOURCE_DATE_EPOCH, or that of the last commit."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given is None:
        given = subprocess.run(["git", "-C", str(ROOT), "log", "-1", "--format=%ct"],
                               check=True, capture_output=True, text=True).stdout
    return int(given)


@dataclass(frozen=True)
class File:
    """A file of a package."""

    path: str
    content: bytes
    executable: bool = False
    # A relative symbolic link to this path; `content` is then empty.
    link: str = ""

    @property
    def mode(self):
        return 0o755 if self.executable else 0o644


def read(path, name=None, executable=False):
    path = Path(path)
    return File(name or path.name, path.read_bytes(), executable)


def licenses(prefix=""):
    return [read(ROOT / name, prefix + name) for name in LICENSE_FILES]


def tar_gz(destination, files):
    """Writes a gzipped tar archive without names of users, times of files or the archive's own name."""
    raw = io.BytesIO()
    stamp = epoch()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for file in sorted(files, key=lambda file: file.path):
            entry = tarfile.TarInfo(file.path)
            entry.mtime = stamp
            entry.mode = 0o777 if file.link else file.mode
            if file.link:
                entry.type, entry.linkname = tarfile.SYMTYPE, file.link
                archive.addfile(entry)
            else:
                entry.size = len(file.content)
                archive.addfile(entry, io.BytesIO(file.content))
    with open(destination, "wb") as out, gzip.GzipFile("", "wb", 9, out, mtime=stamp) as compressed:
        compressed.write(raw.getvalue())


def zip_file(destination, files):
    """Writes a ZIP archive; the first entries keep their order, as wheels want it."""
    # ZIP knows no time before 1980.
    stamp = time.gmtime(max(epoch(), 315532800))[:6]
    with zipfile.ZipFile(destination, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for file in files:
            entry = zipfile.ZipInfo(file.path, stamp)
            entry.create_system = 3
            entry.external_attr = (0o100000 | file.mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, file.content)


def write_checksums(directory):
    """Writes SHA256SUMS for everything in the directory."""
    lines = []
    for path in sorted(directory.iterdir()):
        if path.is_file() and path.name != "SHA256SUMS":
            lines.append(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n")
    (directory / "SHA256SUMS").write_text("".join(lines))
