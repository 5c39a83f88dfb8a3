//! Encoding of control frames: a length prefix, then little-endian integers and length-prefixed bytes.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use super::{FileContent, LandlockRules};
use crate::limits::ResourceLimits;
use crate::report::{ContainmentMethod, ExitStatus};
use crate::sandbox::OverlayMount;
#[cfg(target_os = "linux")]
use crate::sandbox::SyscallFilter;

/// Larger than any argument list that Linux accepts.
const MAX_FRAME: usize = 64 << 20;

/// Builds the body of one frame.
pub(super) struct FrameWriter(pub(super) Vec<u8>);

impl FrameWriter {
    pub(super) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn bytes(&mut self, value: &[u8]) {
        self.u64(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    pub(super) fn os(&mut self, value: &OsStr) {
        self.bytes(value.as_bytes());
    }

    /// Writes `value + 1`, or 0 for `None`.
    pub(super) fn option(&mut self, value: Option<u64>) {
        self.u64(value.map_or(0, |value| value.saturating_add(1)));
    }

    pub(super) fn limits(&mut self, limits: &ResourceLimits) {
        self.option(limits.memory);
        self.option(limits.processes);
        self.option(limits.cpu.map(|time| time.as_micros() as u64));
        self.option(limits.file_size);
    }

    pub(super) fn paths(&mut self, paths: &[PathBuf]) {
        self.u64(paths.len() as u64);
        paths.iter().for_each(|path| self.os(path.as_os_str()));
    }

    pub(super) fn rules(&mut self, rules: Option<&LandlockRules>) {
        self.u64(u64::from(rules.is_some()));
        let Some(rules) = rules else { return };
        for paths in [&rules.read, &rules.write, &rules.devices] {
            self.paths(paths);
        }
        self.u64(u64::from(rules.ports.is_some()));
        let ports = rules.ports.as_deref().unwrap_or_default();
        self.u64(ports.len() as u64);
        ports.iter().for_each(|port| self.u64(u64::from(*port)));
        #[cfg(target_os = "linux")]
        self.filter(rules.filter.as_ref());
    }

    #[cfg(target_os = "linux")]
    fn filter(&mut self, filter: Option<&SyscallFilter>) {
        self.u64(u64::from(filter.is_some()));
        let Some(filter) = filter else { return };
        self.u64(filter.programs.len() as u64);
        filter.programs.iter().for_each(|program| self.bytes(program));
        self.u64(u64::from(filter.supervised.is_some()));
        self.bytes(filter.supervised.as_deref().unwrap_or_default());
    }

    pub(super) fn files(&mut self, files: &[FileContent]) {
        self.u64(files.len() as u64);
        for file in files {
            let (is_given, bytes) = match file {
                FileContent::HostFile(path) => (0, path.as_os_str().as_bytes()),
                FileContent::Bytes(bytes) => (1, bytes.as_slice()),
            };
            self.u64(is_given);
            self.bytes(bytes);
        }
    }

    pub(super) fn overlays(&mut self, overlays: &[OverlayMount]) {
        self.u64(overlays.len() as u64);
        for OverlayMount { lower, below, upper, work, target } in overlays {
            [lower, upper, work, target].into_iter().for_each(|path| self.os(path.as_os_str()));
            self.u64(below.len() as u64);
            below.iter().for_each(|path| self.os(path.as_os_str()));
        }
    }

    pub(super) fn status(&mut self, status: Option<ExitStatus>) {
        let (kind, value) = match status {
            None => (0, 0),
            Some(ExitStatus::Code(code)) => (1, code),
            Some(ExitStatus::Signal(signal)) => (2, signal),
        };
        self.u64(kind);
        self.u64(value as u64);
    }

    pub(super) fn frame(self) -> Vec<u8> {
        let mut frame = (self.0.len() as u32).to_le_bytes().to_vec();
        frame.extend_from_slice(&self.0);
        frame
    }
}

/// Reads the body of one frame.
pub(super) struct FrameReader<'a>(pub(super) &'a [u8]);

pub(super) fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "malformed control frame")
}

impl FrameReader<'_> {
    pub(super) fn u64(&mut self) -> io::Result<u64> {
        let (head, rest) = self.0.split_first_chunk::<8>().ok_or_else(malformed)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*head))
    }

    pub(super) fn count(&mut self) -> io::Result<usize> {
        let count = self.u64()? as usize;
        if count > self.0.len() { Err(malformed()) } else { Ok(count) }
    }

    pub(super) fn bytes(&mut self) -> io::Result<Vec<u8>> {
        let length = self.count()?;
        let (head, rest) = self.0.split_at(length);
        self.0 = rest;
        Ok(head.to_vec())
    }

    pub(super) fn os(&mut self) -> io::Result<OsString> {
        self.bytes().map(OsString::from_vec)
    }

    pub(super) fn list<T>(&mut self, read: impl Fn(&mut Self) -> io::Result<T>) -> io::Result<Vec<T>> {
        (0..self.count()?).map(|_| read(self)).collect()
    }

    pub(super) fn option(&mut self) -> io::Result<Option<u64>> {
        self.u64().map(|value| value.checked_sub(1))
    }

    pub(super) fn limits(&mut self) -> io::Result<ResourceLimits> {
        Ok(ResourceLimits {
            memory: self.option()?,
            processes: self.option()?,
            cpu: self.option()?.map(Duration::from_micros),
            file_size: self.option()?,
        })
    }

    pub(super) fn paths(&mut self) -> io::Result<Vec<PathBuf>> {
        self.list(|body| body.os().map(PathBuf::from))
    }

    pub(super) fn rules(&mut self) -> io::Result<Option<LandlockRules>> {
        if self.u64()? == 0 {
            return Ok(None);
        }
        let (read, write, devices) = (self.paths()?, self.paths()?, self.paths()?);
        let some = self.u64()? == 1;
        let ports = self.list(|body| body.u64().map(|port| port as u16))?;
        Ok(Some(LandlockRules {
            read,
            write,
            devices,
            ports: some.then_some(ports),
            #[cfg(target_os = "linux")]
            filter: self.filter()?,
        }))
    }

    #[cfg(target_os = "linux")]
    fn filter(&mut self) -> io::Result<Option<SyscallFilter>> {
        if self.u64()? == 0 {
            return Ok(None);
        }
        let programs = self.list(FrameReader::bytes)?;
        let some = self.u64()? == 1;
        let supervised = self.bytes()?;
        Ok(Some(SyscallFilter { programs, supervised: some.then_some(supervised) }))
    }

    pub(super) fn files(&mut self) -> io::Result<Vec<FileContent>> {
        self.list(|body| {
            Ok(match body.u64()? {
                0 => FileContent::HostFile(body.os()?.into()),
                1 => FileContent::Bytes(body.bytes()?),
                _ => return Err(malformed()),
            })
        })
    }

    pub(super) fn overlays(&mut self) -> io::Result<Vec<OverlayMount>> {
        self.list(|body| {
            let overlay = OverlayMount::new(body.os()?, body.os()?, body.os()?, body.os()?);
            Ok(overlay.above(body.paths()?))
        })
    }

    pub(super) fn status(&mut self) -> io::Result<Option<ExitStatus>> {
        let (kind, value) = (self.u64()?, self.u64()? as i32);
        match kind {
            0 => Ok(None),
            1 => Ok(Some(ExitStatus::Code(value))),
            2 => Ok(Some(ExitStatus::Signal(value))),
            _ => Err(malformed()),
        }
    }
}

pub(super) fn method_code(method: Option<ContainmentMethod>) -> u64 {
    match method {
        None => 0,
        Some(ContainmentMethod::Cgroup) => 1,
        Some(ContainmentMethod::Subreaper) => 2,
        Some(ContainmentMethod::Sweep) => 3,
        Some(ContainmentMethod::JobObject) => 4,
    }
}

pub(super) fn method_from_code(code: u64) -> io::Result<Option<ContainmentMethod>> {
    Ok(match code {
        0 => None,
        1 => Some(ContainmentMethod::Cgroup),
        2 => Some(ContainmentMethod::Subreaper),
        3 => Some(ContainmentMethod::Sweep),
        _ => return Err(malformed()),
    })
}

/// Validates the length prefix of a frame.
pub(crate) fn frame_length(prefix: [u8; 4]) -> io::Result<usize> {
    let length = u32::from_le_bytes(prefix) as usize;
    if length > MAX_FRAME { Err(malformed()) } else { Ok(length) }
}
