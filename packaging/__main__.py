"""Makes all packages of a release from built programs: `python3 packaging --out DIR TARGET=PROGRAM…`.

`--host-program` names a `yb` that runs on this machine; it prints the man pages and shell completions.
"""

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path

import dependencies
import homebrew
import linux
import npm
import wheels
from release import ROOT, File, licenses, read, tar_gz, target, version, write_checksums, zip_file

SHELLS = {"bash": "usr/share/bash-completion/completions/yb", "zsh": "usr/share/zsh/vendor-completions/_yb",
          "fish": "usr/share/fish/vendor_completions.d/yb.fish"}


def printed(program, *arguments):
    return subprocess.run([program, *arguments], check=True, capture_output=True).stdout


def extras(program):
    """Man pages and completions, at the places where Linux distributions expect them."""
    files = [File(path, printed(program, "completions", shell)) for shell, path in SHELLS.items()]
    with tempfile.TemporaryDirectory() as scratch:
        printed(program, "man", "--dir", scratch)
        files += [read(page, f"usr/share/man/man1/{page.name}") for page in sorted(Path(scratch).iterdir())]
    return files


def archive(destination, one, program, pages, notices):
    """Writes the archive that `install.sh` and people download."""
    folder = f"youbencha-{version()}-{one.triple}"
    files = [File(f"{folder}/{one.program}", program, executable=True), read(ROOT / "README.md", f"{folder}/README.md"),
             File(f"{folder}/THIRD-PARTY-LICENSES.txt", notices)]
    files += licenses(f"{folder}/")
    for page in pages:
        kind = "man" if "/man/" in page.path else "completions"
        files.append(File(f"{folder}/{kind}/{Path(page.path).name}", page.content))
    if one.npm_os == "win32":
        zip_file(destination / f"{folder}.zip", files)
        return f"{folder}.zip"
    tar_gz(destination / f"{folder}.tar.gz", [*files, File(f"{folder}/youbencha", b"", link="yb")])
    return f"{folder}.tar.gz"


def main():
    parser = argparse.ArgumentParser(prog="packaging", description="Make all packages of a release from built programs")
    parser.add_argument("--out", type=Path, required=True, help="directory for the packages; emptied first")
    parser.add_argument("--host-program", required=True, help="a `yb` that runs on this machine")
    parser.add_argument("programs", nargs="+", metavar="TARGET=PROGRAM", help="built and stripped programs")
    arguments = parser.parse_args()
    out = arguments.out
    if out.exists():
        shutil.rmtree(out)
    out.mkdir(parents=True)
    pages = extras(arguments.host_program)
    made = [npm.launcher_package(out)]
    for pair in arguments.programs:
        triple, _, path = pair.partition("=")
        one, program = target(triple), Path(path).read_bytes()
        notices = dependencies.license_texts(triple)
        made += [archive(out, one, program, pages, notices), npm.platform_package(out, one, program),
                 wheels.wheel(out, one, program), dependencies.sbom(out, triple)]
        installed = [*pages, File("usr/share/doc/youbencha/THIRD-PARTY-LICENSES.txt", notices)]
        if one.debian and shutil.which("dpkg-deb"):
            made.append(linux.deb(out, one, program, installed))
        if one.rpm and shutil.which("rpmbuild"):
            made.append(linux.rpm(out, one, program, installed))
    formula = homebrew.formula(out)
    made += [formula] if formula else []
    shutil.copyfile(ROOT / "packaging/install.sh", out / "install.sh")
    write_checksums(out)
    for name in made:
        print(f"{(out / name).stat().st_size / 1e6:8.2f} MB  {name}")


main()
