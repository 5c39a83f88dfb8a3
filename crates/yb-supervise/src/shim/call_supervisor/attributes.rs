//! The calls that change attributes of a file: their arguments, read from the memory of the caller, and how they are
//! made on an open file.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use crate::sys::SupervisedCall;

/// The kernel's limits of a path, and of name and value of an extended attribute.
const MAX_PATH: usize = 4096;
const MAX_XATTR_NAME: usize = 256;
const MAX_XATTR_VALUE: u64 = 65_536;

/// A descriptor argument that stands for the working directory.
const CURRENT_DIRECTORY: i32 = libc::AT_FDCWD;

/// The number of `fchmodat2`, which the libc crate does not have on all targets.
const FCHMODAT2: i64 = 452;

/// The file that a call is about, as its caller names it.
#[derive(Debug)]
pub(super) struct CallTarget {
    thread: u32,
    /// A descriptor of the caller, or the working directory.
    directory: i32,
    /// Empty for the descriptor itself.
    path: Vec<u8>,
    follow: bool,
}

/// A change of attributes.
#[derive(Debug)]
pub(super) enum AttributeChange {
    Mode(u32),
    Owner { user: u32, group: u32 },
    Times(Timestamps),
    SetXattr { name: CString, value: Vec<u8>, flags: u32 },
    RemoveXattr { name: CString },
}

impl AttributeChange {
    /// Reads target and change from the arguments of a call.
    pub(super) fn read(call: &SupervisedCall) -> Result<(CallTarget, Self), Errno> {
        let memory = CallerMemory::open(call.thread)?;
        let [a, b, c, d, e, _] = call.arguments;
        let at = |directory: u64, path: u64, flags: u64| {
            CallTarget::at(call.thread, &memory, directory, path, flags)
        };
        let follow = |path| at(CURRENT_DIRECTORY as u64, path, 0);
        let link = |path| at(CURRENT_DIRECTORY as u64, path, NO_FOLLOW);
        let descriptor = |number: u64| CallTarget::descriptor(call.thread, number);
        let mode = |mode: u64| Self::Mode(mode as u32 & 0o7777);
        let owner = |user: u64, group: u64| Self::Owner { user: user as u32, group: group as u32 };
        let set = |name, value, size, flags| memory.set_xattr(name, value, size, flags);
        let remove = |name| memory.xattr_name(name).map(|name| Self::RemoveXattr { name });
        Ok(match call.number {
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chmod => (follow(a)?, mode(b)),
            libc::SYS_fchmod => (descriptor(a)?, mode(b)),
            libc::SYS_fchmodat => (at(a, b, 0)?, mode(c)),
            FCHMODAT2 => (at(a, b, d)?, mode(c)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_chown => (follow(a)?, owner(b, c)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_lchown => (link(a)?, owner(b, c)),
            libc::SYS_fchown => (descriptor(a)?, owner(b, c)),
            libc::SYS_fchownat => (at(a, b, e)?, owner(c, d)),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_utime => (follow(a)?, memory.times(b, TimeFormat::Seconds)?),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_utimes => (follow(a)?, memory.times(b, TimeFormat::Microseconds)?),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_futimesat if b == 0 => (descriptor(a)?, memory.times(c, TimeFormat::Microseconds)?),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_futimesat => (at(a, b, 0)?, memory.times(c, TimeFormat::Microseconds)?),
            // `futimens`.
            libc::SYS_utimensat if b == 0 => (descriptor(a)?, memory.times(c, TimeFormat::Nanoseconds)?),
            libc::SYS_utimensat => (at(a, b, d)?, memory.times(c, TimeFormat::Nanoseconds)?),
            libc::SYS_setxattr => (follow(a)?, set(b, c, d, e)?),
            libc::SYS_lsetxattr => (link(a)?, set(b, c, d, e)?),
            libc::SYS_fsetxattr => (descriptor(a)?, set(b, c, d, e)?),
            libc::SYS_removexattr => (follow(a)?, remove(b)?),
            libc::SYS_lremovexattr => (link(a)?, remove(b)?),
            libc::SYS_fremovexattr => (descriptor(a)?, remove(b)?),
            _ => return Err(Errno::NOSYS),
        })
    }

    /// Makes the change on an open file.
    pub(super) fn apply(&self, file: &OwnedFd) -> Result<(), Errno> {
        // The link leads to the open file, whatever is at its path by now; even to a symbolic link itself.
        let path = own_descriptor(file);
        match self {
            Self::Mode(mode) => rustix::fs::chmodat(CWD, path, Mode::from_raw_mode(*mode), AtFlags::empty()),
            Self::Owner { user, group } => {
                let user = (*user != u32::MAX).then(|| Uid::from_raw(*user));
                let group = (*group != u32::MAX).then(|| Gid::from_raw(*group));
                rustix::fs::chownat(file, "", user, group, AtFlags::EMPTY_PATH)
            }
            Self::Times(times) => rustix::fs::utimensat(CWD, path, times, AtFlags::empty()),
            Self::SetXattr { name, value, flags } => {
                rustix::fs::setxattr(path, name, value, XattrFlags::from_bits_retain(*flags))
            }
            Self::RemoveXattr { name } => rustix::fs::removexattr(path, name),
        }
    }
}

const NO_FOLLOW: u64 = libc::AT_SYMLINK_NOFOLLOW as u64;
const EMPTY_PATH: u64 = libc::AT_EMPTY_PATH as u64;

impl CallTarget {
    fn at(thread: u32, memory: &CallerMemory, directory: u64, path: u64, flags: u64) -> Result<Self, Errno> {
        let flags = flags & 0xffff_ffff;
        if flags & !(NO_FOLLOW | EMPTY_PATH) != 0 {
            return Err(Errno::INVAL);
        }
        let path = memory.string(path, MAX_PATH, Errno::NAMETOOLONG)?;
        if path.is_empty() && flags & EMPTY_PATH == 0 {
            return Err(Errno::NOENT);
        }
        Ok(Self { thread, directory: directory as i32, path, follow: flags & NO_FOLLOW == 0 })
    }

    fn descriptor(thread: u32, number: u64) -> Result<Self, Errno> {
        match number as i32 {
            ..0 => Err(Errno::BADF),
            directory => Ok(Self { thread, directory, path: Vec::new(), follow: true }),
        }
    }

    /// Opens the file without any access to its contents. The child can't change its root, so it is the same as ours.
    pub(super) fn open(&self) -> Result<OwnedFd, Errno> {
        let path = self.own_path();
        let mut flags = OFlags::PATH | OFlags::CLOEXEC;
        if path.is_absolute() {
            if !self.follow {
                flags |= OFlags::NOFOLLOW;
            }
            return rustix::fs::open(&path, flags, Mode::empty());
        }
        let process = format!("/proc/{}", self.thread);
        let base = match self.directory {
            CURRENT_DIRECTORY => format!("{process}/cwd"),
            number => format!("{process}/fd/{number}"),
        };
        let base = rustix::fs::open(base, flags, Mode::empty()).map_err(|error| match error {
            Errno::NOENT => Errno::BADF,
            error => error,
        })?;
        if self.path.is_empty() {
            return Ok(base);
        }
        if !self.follow {
            flags |= OFlags::NOFOLLOW;
        }
        rustix::fs::openat(base, &path, flags, Mode::empty())
    }

    /// Returns the path, with the links to the calling process replaced: for us they lead to ourselves.
    fn own_path(&self) -> PathBuf {
        let path = Path::new(std::ffi::OsStr::from_bytes(&self.path));
        let process = PathBuf::from(format!("/proc/{}", self.thread));
        let links = [
            ("/proc/self", process.clone()),
            ("/proc/thread-self", process.clone()),
            ("/dev/fd", process.join("fd")),
        ];
        let below = |(link, target): &(&str, PathBuf)| Some(target.join(path.strip_prefix(link).ok()?));
        links.iter().find_map(below).unwrap_or_else(|| path.to_owned())
    }
}

/// Returns the path at which the kernel finds an open file.
pub(super) fn real_path(file: &OwnedFd) -> Result<PathBuf, Errno> {
    let path = rustix::fs::readlink(own_descriptor(file), Vec::new())?;
    Ok(OsString::from_vec(path.into_bytes()).into())
}

fn own_descriptor(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// The format of a pair of times.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TimeFormat {
    #[cfg(target_arch = "x86_64")]
    Seconds,
    #[cfg(target_arch = "x86_64")]
    Microseconds,
    Nanoseconds,
}

/// The memory of the process that made a call.
struct CallerMemory(File);

impl CallerMemory {
    fn open(thread: u32) -> Result<Self, Errno> {
        File::open(format!("/proc/{thread}/mem")).map(Self).map_err(|_| Errno::PERM)
    }

    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
        match self.0.read_at(buffer, address) {
            Ok(0) | Err(_) => Err(Errno::FAULT),
            Ok(length) => Ok(length),
        }
    }

    fn bytes(&self, address: u64, length: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; length];
        let mut done = 0;
        while done < length {
            done += self.read(address + done as u64, &mut bytes[done..])?;
        }
        Ok(bytes)
    }

    /// Reads a string that ends with NUL, which counts for the limit.
    fn string(&self, address: u64, limit: usize, too_long: Errno) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; limit];
        let mut done = 0;
        while done < limit {
            // A read stops at the end of a mapping.
            let length = self.read(address + done as u64, &mut bytes[done..])?;
            if let Some(end) = bytes[done..done + length].iter().position(|byte| *byte == 0) {
                bytes.truncate(done + end);
                return Ok(bytes);
            }
            done += length;
        }
        Err(too_long)
    }

    fn xattr_name(&self, address: u64) -> Result<CString, Errno> {
        let name = self.string(address, MAX_XATTR_NAME, Errno::RANGE)?;
        CString::new(name).map_err(|_| Errno::INVAL)
    }

    fn set_xattr(&self, name: u64, value: u64, size: u64, flags: u64) -> Result<AttributeChange, Errno> {
        if size > MAX_XATTR_VALUE {
            return Err(Errno::TOOBIG);
        }
        let (name, value) = (self.xattr_name(name)?, self.bytes(value, size as usize)?);
        Ok(AttributeChange::SetXattr { name, value, flags: flags as u32 })
    }

    /// Reads the times of access and modification; no address means now.
    fn times(&self, address: u64, format: TimeFormat) -> Result<AttributeChange, Errno> {
        let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
        if address == 0 {
            return Ok(AttributeChange::Times(Timestamps { last_access: now, last_modification: now }));
        }
        let numbers = self.bytes(address, if is_seconds(format) { 16 } else { 32 })?;
        let numbers: Vec<i64> =
            numbers.as_chunks::<8>().0.iter().map(|bytes| i64::from_ne_bytes(*bytes)).collect();
        let [last_access, last_modification] = match (format, numbers.as_slice()) {
            #[cfg(target_arch = "x86_64")]
            (TimeFormat::Seconds, [access, modification]) => [(*access, 0), (*modification, 0)],
            #[cfg(target_arch = "x86_64")]
            (TimeFormat::Microseconds, [access, a, modification, m]) => {
                if !(0..1_000_000).contains(a) || !(0..1_000_000).contains(m) {
                    return Err(Errno::INVAL);
                }
                [(*access, a * 1000), (*modification, m * 1000)]
            }
            (TimeFormat::Nanoseconds, [access, a, modification, m]) => [(*access, *a), (*modification, *m)],
            _ => return Err(Errno::INVAL),
        }
        .map(|(tv_sec, tv_nsec)| Timespec { tv_sec, tv_nsec });
        Ok(AttributeChange::Times(Timestamps { last_access, last_modification }))
    }
}

fn is_seconds(format: TimeFormat) -> bool {
    #[cfg(target_arch = "x86_64")]
    if format == TimeFormat::Seconds {
        return true;
    }
    let _ = format;
    false
}
