//! What a forked child drops before exec: capabilities, new privileges, access that Landlock denies, and system calls
//! that a seccomp filter denies.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, NetPort, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
    RulesetCreated, RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets};
use seccompiler::BpfProgram;

use crate::sandbox::{SyscallFilter, decode_program};
use crate::sys;
use crate::wire::LandlockRules;

/// The ABI that the rules are written for; older kernels enforce a subset.
const ABI: ABI = ABI::V6;
/// Linux 6.2, the first version that restricts truncation.
pub(crate) const MIN_ABI: i32 = 3;
/// The first version that restricts TCP.
pub(crate) const NETWORK_ABI: i32 = 4;

/// Rules that are loaded into the kernel but not in effect yet.
pub(crate) struct Restriction {
    ruleset: RulesetCreated,
    filter: Option<FilterPrograms>,
}

/// Seccomp programs for the calling process.
pub(crate) struct FilterPrograms {
    programs: Vec<BpfProgram>,
    /// The program that passes calls to a supervisor, and where its listener is sent.
    supervised: Option<(BpfProgram, UnixStream)>,
}

/// The end of a socket that receives the listener of supervised calls.
pub(crate) struct ListenerSocket(UnixStream);

impl Restriction {
    /// Loads the rules; called in the shim, before the fork. Paths that don't exist need no rule.
    pub(crate) fn prepare(rules: &LandlockRules) -> io::Result<(Self, Option<ListenerSocket>)> {
        let refused = |error: landlock::RulesetError| io::Error::other(error);
        let mut ruleset = Ruleset::default();
        ruleset = ruleset.handle_access(AccessFs::from_all(ABI)).map_err(refused)?;
        if rules.ports.is_some() {
            ruleset = ruleset.handle_access(AccessNet::from_all(ABI)).map_err(refused)?;
        }
        let mut created = ruleset.scope(Scope::from_all(ABI)).and_then(Ruleset::create).map_err(refused)?;
        // A device node that the child creates would be accessible to it.
        let write = AccessFs::from_all(ABI) & !(AccessFs::MakeBlock | AccessFs::MakeChar);
        let read = AccessFs::from_read(ABI);
        let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
        let lists: [(_, BitFlags<AccessFs>); 3] =
            [(&rules.read, read), (&rules.write, write), (&rules.devices, device)];
        for (paths, access) in lists {
            for path in paths {
                let Ok(descriptor) = PathFd::new(path) else { continue };
                created = created.add_rule(PathBeneath::new(descriptor, access)).map_err(refused)?;
            }
        }
        for port in rules.ports.iter().flatten() {
            created = created.add_rule(NetPort::new(*port, AccessNet::ConnectTcp)).map_err(refused)?;
        }
        let (filter, listener) = match &rules.filter {
            Some(filter) => {
                FilterPrograms::prepare(filter).map(|(filter, listener)| (Some(filter), listener))?
            }
            None => (None, None),
        };
        Ok((Self { ruleset: created, filter }, listener))
    }

    /// Restricts the calling process and its future children, irrevocably.
    pub(crate) fn apply(self) -> io::Result<()> {
        drop_capabilities()?;
        let status = self.ruleset.restrict_self().map_err(io::Error::other)?;
        if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
            return Err(rustix::io::Errno::OPNOTSUPP.into());
        }
        self.filter.map_or(Ok(()), FilterPrograms::apply)
    }
}

impl FilterPrograms {
    pub(crate) fn prepare(filter: &SyscallFilter) -> io::Result<(Self, Option<ListenerSocket>)> {
        let programs = filter.programs.iter().map(|program| decode_program(program)).collect();
        let Some(supervised) = &filter.supervised else {
            return Ok((Self { programs, supervised: None }, None));
        };
        let (ours, child) = UnixStream::pair()?;
        let supervised = Some((decode_program(supervised), child));
        Ok((Self { programs, supervised }, Some(ListenerSocket(ours))))
    }

    /// Filters the calls of the calling process and its future children, irrevocably. Does not allocate.
    pub(crate) fn apply(self) -> io::Result<()> {
        for program in &self.programs {
            sys::install_filter(program)?;
        }
        if let Some((program, socket)) = &self.supervised {
            let listener = sys::install_supervised_filter(program)?;
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            let listeners = [listener.as_fd()];
            ancillary.push(SendAncillaryMessage::ScmRights(&listeners));
            sendmsg(socket, &[IoSlice::new(&[1])], &mut ancillary, SendFlags::NOSIGNAL)?;
        }
        Ok(())
    }
}

impl ListenerSocket {
    /// Receives the listener, which the child sends before exec.
    pub(crate) fn receive(self) -> io::Result<OwnedFd> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        recvmsg(&self.0, &mut [io::IoSliceMut::new(&mut [0])], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        let descriptors = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        descriptors.last().ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

/// Drops all capabilities of the calling thread, and prevents exec as root from regaining them.
pub(crate) fn drop_capabilities() -> io::Result<()> {
    let all = CapabilitySet::all();
    for capability in all.iter() {
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            // Without permission to drop from the bounding set, there is nothing to lose.
            Ok(()) | Err(rustix::io::Errno::PERM | rustix::io::Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let locked = CapabilitiesSecureBits::NO_ROOT | CapabilitiesSecureBits::NO_ROOT_LOCKED;
    match rustix::thread::set_capabilities_secure_bits(locked) {
        Ok(()) | Err(rustix::io::Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    let none = CapabilitySet::empty();
    rustix::thread::set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    )?;
    Ok(())
}
