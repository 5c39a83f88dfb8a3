//! What every program needs of the machine, and no more: programs, libraries, names, certificates.

/// Programs and libraries. What is a link to one of the others stays a link.
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

/// Of `/etc` only this: nothing that holds a secret, and nothing that names other machines but the resolver's.
pub(super) const ETC: [&str; 38] = [
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

/// Of these, what changes while a child runs: it is to see that.
pub(super) const CHANGING: [&str; 2] = ["hosts", "resolv.conf"];

/// Beside a `bin` that PATH names: what its programs load. Never all of its parent, which may be a home.
pub(super) const BESIDE_BIN: [&str; 4] = ["lib", "lib64", "libexec", "include"];

/// Who a child is inside when the host is root.
pub(super) const USER: &str = "1000";
