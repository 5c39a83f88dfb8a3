"""What the program is made of: a bill of materials (CycloneDX) and the licenses of all dependencies."""

import datetime
import json
import re
import subprocess
import uuid
from pathlib import Path

from release import ROOT, epoch, version

# Names of files in which crates keep their licenses.
LICENSE_NAMES = ("license", "licence", "copying", "copyright", "notice", "unlicense")


def packages(triple):
    """The crates that are linked into `yb` for a target, from the lock file."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", triple]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    by_id = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    root = next(package["id"] for package in metadata["packages"] if package["name"] == "youbencha")
    seen, open_ids = {root}, [root]
    while open_ids:
        for dependency in nodes[open_ids.pop()]["deps"]:
            linked = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if linked and dependency["pkg"] not in seen:
                seen.add(dependency["pkg"])
                open_ids.append(dependency["pkg"])
    return sorted((by_id[one] for one in seen), key=lambda package: (package["name"], package["version"]))


def checksums():
    """SHA-256 of each crate, as the lock file has it."""
    entry = r'^name = "([^"]+)"\nversion = "([^"]+)"\nsource = .*\nchecksum = "([0-9a-f]{64})"'
    lock = (ROOT / "Cargo.lock").read_text()
    return {(name, number): checksum for name, number, checksum in re.findall(entry, lock, re.MULTILINE)}


def sbom(destination, triple):
    """Writes a bill of materials in the format of CycloneDX 1.5."""
    sums, components = checksums(), []
    for package in packages(triple):
        name, number = package["name"], package["version"]
        component = {"type": "library", "bom-ref": f"pkg:cargo/{name}@{number}", "name": name, "version": number,
                     "purl": f"pkg:cargo/{name}@{number}"}
        if package.get("license"):
            component["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        if sums.get((name, number)):
            component["hashes"] = [{"alg": "SHA-256", "content": sums[name, number]}]
        components.append(component)
    time = datetime.datetime.fromtimestamp(epoch(), datetime.timezone.utc)
    subject = {"type": "application", "bom-ref": "yb", "name": "youbencha", "version": version()}
    document = {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'youbencha {version()} {triple} {epoch()}')}",
        "metadata": {"timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"), "component": subject},
        "components": components,
    }
    name = f"youbencha-{version()}-{triple}.cdx.json"
    (destination / name).write_text(json.dumps(document, indent=1) + "\n")
    return name


def license_texts(triple):
    """The license texts of all dependencies; crates with the same text share it."""
    texts, without = {}, []
    for package in packages(triple):
        if package["source"] is None:
            continue
        title = f"{package['name']} {package['version']} ({package.get('license') or 'see text'})"
        folder = Path(package["manifest_path"]).parent
        found = [path for path in sorted(folder.iterdir())
                 if path.is_file() and path.name.lower().startswith(LICENSE_NAMES)]
        if not found:
            without.append(title)
        for path in found:
            text = path.read_text(errors="replace").replace("\r\n", "\n").strip()
            texts.setdefault(text, []).append(title)
    parts = ["Licenses of the libraries that are part of this program.\n"]
    if without:
        parts.append("Without a license text of their own:\n" + "".join(f"- {title}\n" for title in without))
    for text, titles in sorted(texts.items(), key=lambda item: item[1]):
        used = "".join(f"- {title}\n" for title in titles)
        parts.append(f"{used}\n{text}\n")
    return ("\n" + "=" * 80 + "\n").join(parts).encode()
