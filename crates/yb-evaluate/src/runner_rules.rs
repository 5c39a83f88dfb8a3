//! Which files decide what a test run says: one table for each ecosystem. The rules are data; `protect.rs` applies them.
//!
//! A rule is a glob from the root of the tree; a directory covers everything in it. The tests in
//! `crates/youbencha/tests/it/cheats/` run attacks on the real runners.

/// Why a file of the end tree is not the agent's to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuleKind {
    /// A test, or data that a test compares with.
    Test,
    /// A file that steers a test runner or the programs below it.
    Setting,
    /// A cache, which a runner may prefer to the file that it was made from.
    Cache,
    /// Installed packages, which `prepare` makes.
    Environment,
}

/// A glob with its meaning.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) kind: RuleKind,
    pub(crate) glob: &'static str,
    /// Completes "left out, because it is …".
    pub(crate) reason: &'static str,
}

const fn test(glob: &'static str) -> Rule {
    Rule { kind: RuleKind::Test, glob, reason: "a test" }
}

const fn setting(glob: &'static str, reason: &'static str) -> Rule {
    Rule { kind: RuleKind::Setting, glob, reason }
}

const fn cache(glob: &'static str, reason: &'static str) -> Rule {
    Rule { kind: RuleKind::Cache, glob, reason }
}

const fn environment(glob: &'static str, reason: &'static str) -> Rule {
    Rule { kind: RuleKind::Environment, glob, reason }
}

/// All rules.
pub(crate) static RULES: [&[Rule]; 7] = [&ANY, &PYTHON, &JAVASCRIPT, &RUST, &GO, &JAVA, &RUBY_AND_PHP];

/// Any runner.
static ANY: [Rule; 7] = [
    test("**/tests"),
    test("**/test"),
    test("**/test.sh"),
    setting("**/.tool-versions", "a version manager's setting"),
    setting("**/.mise.toml", "a version manager's setting"),
    setting("**/mise.toml", "a version manager's setting"),
    setting("**/.envrc", "a shell setting"),
];

/// pytest, unittest.
static PYTHON: [Rule; 32] = [
    test("**/test_*.py"),
    test("**/*_test.py"),
    setting("**/conftest.py", "code that pytest loads"),
    setting("**/pytest.ini", "a pytest setting"),
    setting("**/.pytest.ini", "a pytest setting"),
    setting("**/pytest.toml", "a pytest setting"),
    setting("**/.pytest.toml", "a pytest setting"),
    setting("**/tox.ini", "a pytest and tox setting"),
    setting("**/tox.toml", "a tox setting"),
    setting("**/setup.cfg", "a pytest setting"),
    setting("**/noxfile.py", "a nox setting"),
    setting("**/.coveragerc", "a coverage setting"),
    setting("**/sitecustomize.py", "code that Python loads at its start"),
    setting("**/usercustomize.py", "code that Python loads at its start"),
    setting("**/*.pth", "code that Python loads at its start"),
    setting("**/*.dist-info", "package metadata, by which pytest finds plugins"),
    setting("**/*.egg-info", "package metadata, by which pytest finds plugins"),
    setting("**/.python-version", "a version manager's setting"),
    cache("**/__pycache__", "compiled Python"),
    cache("**/*.pyc", "compiled Python"),
    cache("**/*.pyo", "compiled Python"),
    cache("**/.pytest_cache", "a cache of pytest"),
    cache("**/.hypothesis", "a cache of hypothesis"),
    cache("**/.mypy_cache", "a cache of mypy"),
    cache("**/.ruff_cache", "a cache of ruff"),
    environment("**/.venv", "a virtual environment"),
    environment("**/venv", "a virtual environment"),
    environment("**/.tox", "virtual environments of tox"),
    environment("**/.nox", "virtual environments of nox"),
    environment("**/.eggs", "installed packages"),
    environment("**/site-packages", "installed packages"),
    environment("**/__pypackages__", "installed packages"),
];

/// jest, vitest, mocha, node:test.
static JAVASCRIPT: [Rule; 42] = [
    test("**/__tests__"),
    test("**/*.test.*"),
    test("**/*.spec.*"),
    test("**/*-test.{js,cjs,mjs,ts,cts,mts}"),
    test("**/*_test.{js,cjs,mjs,ts,cts,mts}"),
    test("**/test-*.{js,cjs,mjs,ts,cts,mts}"),
    test("**/test.{js,cjs,mjs,ts,cts,mts}"),
    Rule { kind: RuleKind::Test, glob: "**/__snapshots__", reason: "what tests compare with" },
    Rule { kind: RuleKind::Test, glob: "**/*.snap", reason: "what tests compare with" },
    setting("**/__mocks__", "modules that jest puts in place of others"),
    setting("**/jest.config.*", "a jest setting"),
    setting("**/jest.setup.*", "a jest setting"),
    setting("**/jest.preset.*", "a jest setting"),
    setting("**/vitest.config.*", "a vitest setting"),
    setting("**/vitest.workspace.*", "a vitest setting"),
    setting("**/vitest.projects.*", "a vitest setting"),
    setting("**/vitest.setup.*", "a vitest setting"),
    setting("**/vite.config.*", "a vitest setting"),
    setting("**/babel.config.*", "a Babel setting, which changes the code that jest runs"),
    setting("**/.babelrc*", "a Babel setting, which changes the code that jest runs"),
    setting("**/.swcrc", "a compiler setting"),
    setting("**/tsconfig*.json", "a compiler setting, with modules that ts-node loads"),
    setting("**/.mocharc.*", "a mocha setting"),
    setting("**/.nycrc*", "a coverage setting"),
    setting("**/.c8rc*", "a coverage setting"),
    setting("**/.npmrc", "an npm setting"),
    setting("**/.yarnrc", "a yarn setting"),
    setting("**/.yarnrc.yml", "a yarn setting"),
    setting("**/.yarn", "programs that yarn runs"),
    setting("**/.pnp.*", "a module loader of yarn"),
    setting("**/.pnpmfile.*", "code that pnpm loads"),
    setting("**/pnpm-workspace.yaml", "a pnpm setting"),
    setting("**/node.config.json", "a node setting"),
    setting("**/bunfig.toml", "a bun setting"),
    setting("**/deno.json*", "a deno setting"),
    setting("**/.node-version", "a version manager's setting"),
    setting("**/.nvmrc", "a version manager's setting"),
    cache("**/.vite", "a cache of vite"),
    cache("**/.vitest", "a cache of vitest"),
    cache("**/.nyc_output", "a cache of nyc"),
    cache("**/*.tsbuildinfo", "a cache of tsc"),
    environment("**/node_modules", "installed packages"),
];

/// cargo test, cargo nextest.
static RUST: [Rule; 8] = [
    setting("**/.cargo", "a cargo setting, with runners and wrappers"),
    setting("**/rust-toolchain", "a toolchain setting"),
    setting("**/rust-toolchain.toml", "a toolchain setting"),
    setting("**/.config/nextest.toml", "a nextest setting"),
    cache("**/target/debug", "build output of cargo"),
    cache("**/target/release", "build output of cargo"),
    cache("**/target/.rustc_info.json", "build output of cargo"),
    cache("**/target/CACHEDIR.TAG", "build output of cargo"),
];

/// go test.
static GO: [Rule; 4] = [
    test("**/*_test.go"),
    Rule { kind: RuleKind::Test, glob: "**/testdata", reason: "what tests compare with" },
    setting("**/go.work", "a go setting, which replaces modules"),
    setting("**/go.work.sum", "a go setting, which replaces modules"),
];

/// JUnit with Maven or Gradle.
static JAVA: [Rule; 32] = [
    test("**/src/test"),
    test("**/src/integrationTest"),
    test("**/*Test.{java,kt,groovy,scala}"),
    test("**/*Tests.{java,kt,groovy,scala}"),
    test("**/*IT.{java,kt,groovy,scala}"),
    setting("**/junit-platform.properties", "a JUnit setting"),
    setting("**/META-INF/services/org.junit*", "a JUnit extension"),
    setting("**/org/junit", "classes in place of those of JUnit"),
    setting("**/junit/framework", "classes in place of those of JUnit"),
    setting("**/org/opentest4j", "classes in place of those of JUnit"),
    setting("**/org/apiguardian", "classes in place of those of JUnit"),
    setting("**/org/hamcrest", "classes in place of those of JUnit"),
    setting("**/org/mockito", "classes in place of those of Mockito"),
    setting("**/org/assertj", "classes in place of those of AssertJ"),
    setting("**/pom.xml", "a Maven setting, with plugins that run tests"),
    setting("**/.mvn", "a Maven setting"),
    setting("**/mvnw", "a program that runs tests"),
    setting("**/build.gradle", "a Gradle setting, with tasks that run tests"),
    setting("**/build.gradle.kts", "a Gradle setting, with tasks that run tests"),
    setting("**/settings.gradle", "a Gradle setting"),
    setting("**/settings.gradle.kts", "a Gradle setting"),
    setting("**/init.gradle*", "a Gradle setting"),
    setting("**/gradle.properties", "a Gradle setting"),
    setting("**/buildSrc", "code that Gradle loads"),
    setting("**/gradlew", "a program that runs tests"),
    setting("**/gradle/wrapper", "a program that runs tests"),
    cache("**/.gradle", "a cache of Gradle"),
    cache("**/target/classes", "build output of Maven"),
    cache("**/target/test-classes", "build output of Maven"),
    cache("**/target/surefire-reports", "build output of Maven"),
    cache("**/build/classes", "build output of Gradle"),
    cache("**/build/test-results", "build output of Gradle"),
];

/// RSpec, PHPUnit.
static RUBY_AND_PHP: [Rule; 21] = [
    test("**/*_test.rb"),
    test("**/*_spec.rb"),
    test("**/spec/**/*.rb"),
    setting("**/.rspec", "an RSpec setting"),
    setting("**/.rspec-local", "an RSpec setting"),
    setting("**/Gemfile", "code that Bundler runs before the tests"),
    setting("**/Gemfile.lock", "a Bundler setting"),
    setting("**/.bundle", "a Bundler setting"),
    setting("**/.ruby-version", "a version manager's setting"),
    test("**/*Test.php"),
    setting("**/phpunit.xml", "a PHPUnit setting"),
    setting("**/phpunit.xml.dist", "a PHPUnit setting"),
    setting("**/phpunit.dist.xml", "a PHPUnit setting"),
    // PHP searches the working directory before its library.
    setting("**/PHPUnit", "code in place of PHPUnit's"),
    setting("**/{DeepCopy,PharIo,SebastianBergmann,TheSeer}", "code in place of PHPUnit's"),
    setting("**/Doctrine/Instantiator", "code in place of PHPUnit's"),
    cache("**/.phpunit*.cache", "a cache of PHPUnit"),
    environment("**/vendor/bundle", "installed packages"),
    environment("**/vendor/autoload.php", "installed packages"),
    environment("**/vendor/{bin,composer}", "installed packages"),
    environment("**/vendor/{phpunit,sebastian}", "installed packages"),
];

/// Tests that stay if the agent added them: Rust compiles a module `tests` below `src` with the crate, which does not
/// build without it.
pub(crate) const ADDED_TESTS_KEPT: [&str; 1] = ["**/src/**/*.rs"];

/// A manifest: its entries are the agent's, except those that steer a test runner.
#[derive(Debug)]
pub(crate) struct ManifestRule {
    /// The file name, in any directory.
    pub(crate) name: &'static str,
    pub(crate) syntax: ManifestSyntax,
    /// Keys whose value is as at the start. `*` stands for any characters of one key; an array is looked into.
    pub(crate) keys: &'static [&'static [&'static str]],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ManifestSyntax {
    Json,
    Toml,
}

pub(crate) static MANIFESTS: [ManifestRule; 3] = [
    ManifestRule {
        name: "pyproject.toml",
        syntax: ManifestSyntax::Toml,
        keys: &[
            &["tool", "pytest*"],
            &["tool", "coverage"],
            &["tool", "tox"],
            &["tool", "nox"],
            &["tool", "hatch", "envs"],
            &["tool", "pdm", "scripts"],
            &["tool", "poe"],
            &["tool", "taskipy"],
            &["project", "entry-points", "pytest11"],
        ],
    },
    ManifestRule {
        name: "package.json",
        syntax: ManifestSyntax::Json,
        keys: &[
            &["jest"],
            &["vitest"],
            &["vite"],
            &["mocha"],
            &["ava"],
            &["tap"],
            &["nyc"],
            &["c8"],
            &["babel"],
            &["swc"],
            &["ts-node"],
            &["scripts", "*test*"],
            &["scripts", "*check*"],
            &["scripts", "preinstall"],
            &["scripts", "install"],
            &["scripts", "postinstall"],
            &["scripts", "prepare"],
            &["packageManager"],
        ],
    },
    ManifestRule {
        name: "Cargo.toml",
        syntax: ManifestSyntax::Toml,
        keys: &[
            &["test"],
            &["bench"],
            &["lib", "harness"],
            &["lib", "test"],
            &["lib", "doctest"],
            &["bin", "harness"],
            &["bin", "test"],
            &["package", "autotests"],
            &["package", "autobenches"],
            &["profile", "test"],
            &["workspace", "metadata", "nextest"],
            &["package", "metadata", "nextest"],
        ],
    },
];

/// Modules that a runner imports by name: a new file of that name in a directory where the runner looks first would be
/// imported in their place.
#[derive(Debug)]
pub(crate) struct ImportedModules {
    /// The extension of a module.
    pub(crate) extension: &'static str,
    /// The beginning of the file that makes a directory a module; any module in it does if empty.
    pub(crate) package_file: &'static str,
    /// Whether the directories of tests are looked into, and those above them.
    pub(crate) beside_tests: bool,
    /// Directories that are always looked into.
    pub(crate) roots: &'static [&'static str],
    pub(crate) names: &'static [&'static str],
    /// Beginnings of names.
    pub(crate) prefixes: &'static [&'static str],
    pub(crate) reason: &'static str,
}

pub(crate) static IMPORTED_MODULES: [ImportedModules; 2] = [
    ImportedModules {
        extension: "py",
        package_file: "__init__.",
        beside_tests: true,
        roots: &["", "src", "lib"],
        names: &PYTHON_MODULES,
        prefixes: &["pytest_", "_pytest"],
        reason: "a module in place of one that the test runner imports",
    },
    ImportedModules {
        extension: "rb",
        package_file: "",
        beside_tests: false,
        roots: &["lib", "spec"],
        names: &RUBY_MODULES,
        prefixes: &["rspec"],
        reason: "a file in place of one that the test runner requires",
    },
];

/// The standard library of Python, and the packages that pytest and its usual plugins import.
#[rustfmt::skip]
const PYTHON_MODULES: [&str; 332] = [
    "_abc", "_aix_support", "_ast", "_asyncio", "_bisect", "_blake2", "_bootsubprocess", "_bz2", "_codecs",
    "_codecs_cn", "_codecs_hk", "_codecs_iso2022", "_codecs_jp", "_codecs_kr", "_codecs_tw", "_collections",
    "_collections_abc", "_colorize", "_compat_pickle", "_compression", "_contextvars", "_crypt", "_csv",
    "_ctypes", "_curses", "_curses_panel", "_datetime", "_dbm", "_decimal", "_elementtree",
    "_frozen_importlib", "_frozen_importlib_external", "_functools", "_gdbm", "_hashlib", "_heapq", "_imp",
    "_io", "_json", "_locale", "_lsprof", "_lzma", "_markupbase", "_md5", "_msi", "_multibytecodec",
    "_multiprocessing", "_opcode", "_operator", "_osx_support", "_overlapped", "_pickle", "_posixshmem",
    "_posixsubprocess", "_py_abc", "_pydecimal", "_pyio", "_pyrepl", "_queue", "_random", "_scproxy", "_sha1",
    "_sha256", "_sha3", "_sha512", "_signal", "_sitebuiltins", "_socket", "_sqlite3", "_sre", "_ssl", "_stat",
    "_statistics", "_string", "_strptime", "_struct", "_symtable", "_thread", "_threading_local", "_tkinter",
    "_tokenize", "_tracemalloc", "_typing", "_uuid", "_warnings", "_weakref", "_weakrefset", "_winapi",
    "_zoneinfo", "abc", "aifc", "annotationlib", "antigravity", "argparse", "array", "ast", "asynchat",
    "asyncio", "asyncore", "atexit", "attr", "attrs", "audioop", "base64", "bdb", "binascii", "bisect",
    "builtins", "bz2", "cProfile", "calendar", "cgi", "cgitb", "chunk", "cmath", "cmd", "code", "codecs",
    "codeop", "collections", "colorama", "colorsys", "compileall", "compression", "concurrent",
    "configparser", "contextlib", "contextvars", "copy", "copyreg", "coverage", "crypt", "csv", "ctypes",
    "curses", "dataclasses", "datetime", "dbm", "decimal", "difflib", "dis", "distutils", "doctest", "email",
    "encodings", "ensurepip", "enum", "errno", "exceptiongroup", "execnet", "faulthandler", "fcntl",
    "filecmp", "fileinput", "fnmatch", "fractions", "ftplib", "functools", "gc", "genericpath", "getopt",
    "getpass", "gettext", "glob", "graphlib", "grp", "gzip", "hashlib", "heapq", "hmac", "html", "http",
    "hypothesis", "idlelib", "imaplib", "imghdr", "imp", "importlib", "importlib_metadata", "iniconfig",
    "inspect", "io", "ipaddress", "itertools", "json", "keyword", "lib2to3", "linecache", "locale", "logging",
    "lzma", "mailbox", "mailcap", "marshal", "math", "mimetypes", "mmap", "mock", "modulefinder", "msilib",
    "msvcrt", "multiprocessing", "netrc", "nis", "nntplib", "nose", "nose2", "nt", "ntpath", "nturl2path",
    "numbers", "opcode", "operator", "optparse", "os", "ossaudiodev", "packaging", "parameterized", "pathlib",
    "pdb", "pickle", "pickletools", "pipes", "pkg_resources", "pkgutil", "platform", "plistlib", "pluggy",
    "poplib", "posix", "posixpath", "pprint", "profile", "pstats", "pty", "pwd", "py", "py_compile", "pyclbr",
    "pydoc", "pydoc_data", "pyexpat", "pygments", "pytest", "queue", "quopri", "random", "re", "readline",
    "reprlib", "resource", "rlcompleter", "runpy", "sched", "secrets", "select", "selectors", "setuptools",
    "shelve", "shlex", "shutil", "signal", "site", "smtpd", "smtplib", "sndhdr", "socket", "socketserver",
    "spwd", "sqlite3", "sre_compile", "sre_constants", "sre_parse", "ssl", "stat", "statistics", "string",
    "stringprep", "struct", "subprocess", "sunau", "symtable", "sys", "sysconfig", "syslog", "tabnanny",
    "tarfile", "telnetlib", "tempfile", "termios", "textwrap", "this", "threading", "time", "timeit",
    "tkinter", "token", "tokenize", "tomli", "tomllib", "trace", "traceback", "tracemalloc", "tty", "turtle",
    "turtledemo", "types", "typing", "typing_extensions", "unicodedata", "unittest", "urllib", "uu", "uuid",
    "venv", "warnings", "wave", "weakref", "webbrowser", "winreg", "winsound", "wsgiref", "xdist", "xdrlib",
    "xml", "xmlrpc", "zipapp", "zipfile", "zipimport", "zipp", "zlib", "zoneinfo",
];

/// The standard library of Ruby, and the gems that RSpec requires.
#[rustfmt::skip]
const RUBY_MODULES: [&str; 77] = [
    "English", "abbrev", "base64", "benchmark", "bigdecimal", "bundler", "cgi", "coverage", "csv", "date",
    "delegate", "diff", "digest", "erb", "etc", "expect", "fiddle", "fileutils", "find", "forwardable",
    "getoptlong", "io", "ipaddr", "irb", "json", "logger", "matrix", "minitest", "monitor", "mutex_m", "net",
    "nkf", "objspace", "observer", "open-uri", "open3", "openssl", "optparse", "ostruct", "pathname", "pp",
    "prettyprint", "prime", "pstore", "psych", "pty", "racc", "rake", "rbconfig", "readline", "reline",
    "resolv", "rinda", "ripper", "rubygems", "securerandom", "set", "shellwords", "simplecov", "singleton",
    "socket", "stringio", "strscan", "syslog", "tempfile", "test-unit", "thread", "time", "timeout", "tmpdir",
    "tsort", "un", "unicode_normalize", "uri", "weakref", "yaml", "zlib",
];

#[cfg(test)]
mod tests {
    use super::*;
    use yb_repo::PathGlobs;

    #[test]
    fn globs_compile_and_are_listed_once() {
        let mut seen = std::collections::BTreeSet::new();
        for rule in RULES.into_iter().flatten() {
            assert!(PathGlobs::new([rule.glob]).is_ok(), "{}", rule.glob);
            assert!(seen.insert(rule.glob), "{} is listed twice", rule.glob);
            assert!(!rule.reason.is_empty());
        }
        assert!(PathGlobs::new(ADDED_TESTS_KEPT).is_ok());
    }

    /// Rules that no test with a real runner covers: each file would decide a test run.
    #[test]
    fn files_that_steer_a_runner_have_a_rule() {
        let check = |path: &str, kind: RuleKind| {
            let rules = RULES.into_iter().flatten();
            let mut matching =
                rules.filter(|rule| PathGlobs::new([rule.glob]).unwrap().matches(path.as_bytes()));
            assert!(matching.any(|rule| rule.kind == kind), "{path}");
        };
        for path in [
            "src/test/java/CalcTest.java",
            "app/src/test/resources/x.properties",
            "a/b_test.go",
            "pkg/testdata/golden.txt",
            "spec/calc_spec.rb",
            "spec/support/helper.rb",
            "src/__snapshots__/a.test.js.snap",
        ] {
            check(path, RuleKind::Test);
        }
        for path in [
            "pom.xml",
            "sub/build.gradle.kts",
            "src/main/resources/junit-platform.properties",
            "src/main/resources/META-INF/services/org.junit.platform.launcher.TestExecutionListener",
            "src/main/java/org/junit/Assert.java",
            ".mvn/maven.config",
            "gradle/wrapper/gradle-wrapper.jar",
            "go.work",
            ".rspec",
            "Gemfile",
            ".config/nextest.toml",
            "evil-1.0.dist-info/entry_points.txt",
        ] {
            check(path, RuleKind::Setting);
        }
        for path in ["target/debug/deps/x", "target/test-classes/A.class", "a/__pycache__/x.pyc"] {
            check(path, RuleKind::Cache);
        }
    }

    #[test]
    fn module_names_are_sorted_for_the_search() {
        for modules in &IMPORTED_MODULES {
            assert!(modules.names.is_sorted(), "{}", modules.extension);
        }
    }
}
