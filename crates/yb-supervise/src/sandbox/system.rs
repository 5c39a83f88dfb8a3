//! The system paths that every sandbox contains: programs, libraries, name resolution, certificates.

/// Programs and libraries. Links among them stay links.
pub(super) const DIRECTORIES: [&str; 11] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix/store",
    "/gnu/store",
    "/run/current-system/sw",
];

/// The allowed entries of `/etc`: no secrets, and no host names except for the resolver configuration.
pub(super) const ETC: [&str; 44] = [
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "fonts",
    "gai.conf",
    "group",
    "host.conf",
    "hosts",
    "inputrc",
    "java",
    "java-11-openjdk",
    "java-17-openjdk",
    "java-21-openjdk",
    "java-25-openjdk",
    "java-8-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "lsb-release",
    "magic",
    "mime.types",
    "networks",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "perl",
    "php",
    "pki",
    "profile",
    "protocols",
    "python3",
    "resolv.conf",
    "services",
    "shells",
    "ssl",
    "static",
    "terminfo",
    "timezone",
];

/// The entries of `/etc` that may change while a child runs, and are bound instead of copied.
pub(super) const MUTABLE_ETC: [&str; 2] = ["hosts", "resolv.conf"];

/// Siblings of a `bin` directory in PATH that its programs load. Never the whole parent, which may be a home
/// directory.
pub(super) const BIN_SIBLINGS: [&str; 4] = ["lib", "lib64", "libexec", "include"];

/// The uid and gid in the sandbox when the host runs as root.
pub(super) const SANDBOX_UID: &str = "1000";
