"""Debian and RPM packages of a static program, made by the tools of these systems."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from release import HOMEPAGE, LICENSE, LICENSE_FILES, ROOT, SUMMARY, epoch, version


def install_tree(root, program, extras):
    """Puts the files of a package below `root`."""
    binary = root / "usr/bin/yb"
    binary.parent.mkdir(parents=True)
    binary.write_bytes(program)
    binary.chmod(0o755)
    (root / "usr/bin/youbencha").symlink_to("yb")
    for extra in extras:
        path = root / extra.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(extra.content)
        path.chmod(0o644)
    docs = root / "usr/share/doc/youbencha"
    docs.mkdir(parents=True, exist_ok=True)
    for name in LICENSE_FILES:
        shutil.copyfile(ROOT / name, docs / name)
        (docs / name).chmod(0o644)
    for path in root.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)


def environment():
    return {**os.environ, "SOURCE_DATE_EPOCH": str(epoch())}


def deb(destination, target, program, extras):
    """Writes a .deb. git and bubblewrap are what a run needs."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "root"
        install_tree(root, program, extras)
        size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file() and not path.is_symlink())
        control = root / "DEBIAN/control"
        control.parent.mkdir()
        control.write_text("\n".join([
            "Package: youbencha", f"Version: {version()}-1", f"Architecture: {target.debian}", "Section: devel",
            "Priority: optional", "Maintainer: youBencha contributors <youbencha@users.noreply.github.com>",
            f"Installed-Size: {size // 1024}", "Depends: git (>= 1:2.39), bubblewrap (>= 0.8)", "Recommends: ca-certificates",
            "Suggests: nodejs, npm", f"Homepage: {HOMEPAGE}", f"Description: {SUMMARY}",
            " Cases in YAML are given to coding agents in a sandbox. Their changes are", " graded, compared and reported.", ""]))
        control.parent.chmod(0o755)
        control.chmod(0o644)
        name = f"youbencha_{version()}-1_{target.debian}.deb"
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(root), str(destination / name)],
                       check=True, stdout=subprocess.DEVNULL, env=environment())
        return name


SPEC = """
Name: youbencha
Version: {version}
Release: 1
Summary: {summary}
License: {license}
URL: {homepage}
Requires: git >= 2.39
Requires: bubblewrap >= 0.8

%description
Cases in YAML are given to coding agents in a sandbox. Their changes are
graded, compared and reported.

%install
cp -a {tree}/. %{{buildroot}}

%files
{files}
"""


def rpm(destination, target, program, extras):
    """Writes an .rpm."""
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "tree"
        install_tree(tree, program, extras)
        files = "\n".join(f"/{path.relative_to(tree)}" for path in sorted(tree.rglob("*")) if not path.is_dir())
        spec = Path(scratch) / "youbencha.spec"
        spec.write_text(SPEC.format(version=version(), summary=SUMMARY, license=LICENSE, homepage=HOMEPAGE, tree=tree, files=files))
        settings = {"_topdir": f"{scratch}/top", "_rpmdir": f"{scratch}/out", "_buildhost": "localhost",
                    "_build_id_links": "none", "debug_package": "%{nil}", "__strip": "/bin/true",
                    "__os_install_post": "%{nil}", "_binary_payload": "w9.xzdio",
                    "use_source_date_epoch_as_buildtime": "1", "clamp_mtime_to_source_date_epoch": "1"}
        defines = [part for name, value in settings.items() for part in ("--define", f"{name} {value}")]
        subprocess.run(["rpmbuild", "-bb", "--quiet", "--target", f"{target.rpm}-linux", *defines, str(spec)], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment())
        made = next(Path(scratch, "out").rglob("*.rpm"))
        name = f"youbencha-{version()}-1.{target.rpm}.rpm"
        shutil.copyfile(made, destination / name)
        return name
