"""npm packages: `youbencha`, a launcher, and one package with the program for each platform."""

import json

from release import HOMEPAGE, LICENSE, ROOT, SUMMARY, TARGETS, File, licenses, read, tar_gz, version


def common(name, description):
    return {
        "name": name,
        "version": version(),
        "description": description,
        "license": LICENSE,
        "homepage": HOMEPAGE,
        "repository": {"type": "git", "url": f"git+{HOMEPAGE}.git"},
    }


def as_json(value):
    return (json.dumps(value, indent=2) + "\n").encode()


def platform_package(destination, target, program):
    """Writes the package with the program of one platform."""
    manifest = common(target.npm_name, f"The program of youbencha for {target.npm_os} on {target.npm_cpu}")
    manifest |= {"os": [target.npm_os], "cpu": [target.npm_cpu], "preferUnplugged": True}
    files = [File("package/package.json", as_json(manifest)),
             File(f"package/bin/{target.program}", program, executable=True)]
    name = f"youbencha-{target.npm_os}-{target.npm_cpu}-{version()}.tgz"
    tar_gz(destination / name, files + licenses("package/"))
    return name


def launcher_package(destination):
    """Writes the package that users install. npm installs only the optional dependency that fits the platform."""
    manifest = common("youbencha", SUMMARY)
    manifest |= {
        "keywords": ["benchmark", "evaluation", "coding-agent", "claude-code", "llm"],
        "bin": {"yb": "bin/yb.js", "youbencha": "bin/yb.js"},
        "engines": {"node": ">=18"},
        "optionalDependencies": {target.npm_name: version() for target in TARGETS},
    }
    launcher = read(ROOT / "packaging/npm/yb.js", "package/bin/yb.js", executable=True)
    files = [File("package/package.json", as_json(manifest)), launcher, read(ROOT / "README.md", "package/README.md")]
    name = f"youbencha-{version()}.tgz"
    tar_gz(destination / name, files + licenses("package/"))
    return name
