"""Wheels for PyPI: the program as a script, without any Python code."""

import base64
import hashlib

from release import HOMEPAGE, LICENSE, LICENSE_FILES, ROOT, SUMMARY, File, read, version, zip_file


def digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def wheel(destination, target, program):
    """Writes the wheel of one platform."""
    info = f"youbencha-{version()}.dist-info"
    scripts = f"youbencha-{version()}.data/scripts"
    metadata = "\n".join([
        "Metadata-Version: 2.4", "Name: youbencha", f"Version: {version()}", f"Summary: {SUMMARY}",
        f"License-Expression: {LICENSE}", *(f"License-File: {name}" for name in LICENSE_FILES),
        f"Project-URL: Repository, {HOMEPAGE}", "Requires-Python: >=3.8",
        "Description-Content-Type: text/markdown", "", (ROOT / "README.md").read_text()])
    tags = [f"py3-none-{tag}" for tag in target.wheel_tags]
    wheel_file = "\n".join(["Wheel-Version: 1.0", "Generator: youbencha packaging", "Root-Is-Purelib: false",
                            *(f"Tag: {tag}" for tag in tags), ""])
    files = [File(f"{scripts}/{target.program}", program, executable=True)]
    files += [read(ROOT / name, f"{info}/licenses/{name}") for name in LICENSE_FILES]
    files += [File(f"{info}/METADATA", metadata.encode()), File(f"{info}/WHEEL", wheel_file.encode())]
    record = "".join(f"{file.path},sha256={digest(file.content)},{len(file.content)}\n" for file in files)
    files.append(File(f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode()))
    name = f"youbencha-{version()}-py3-none-{'.'.join(target.wheel_tags)}.whl"
    zip_file(destination / name, files)
    return name
