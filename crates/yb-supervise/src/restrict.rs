//! What a forked child drops before exec: capabilities, new privileges, and access that Landlock denies.

use std::io;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, NetPort, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
    RulesetCreated, RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets};

use crate::wire::LandlockRules;

/// The ABI that the rules are written for; older kernels enforce a subset.
const ABI: ABI = ABI::V6;
/// Linux 6.2, the first version that restricts truncation.
pub(crate) const MIN_ABI: i32 = 3;
/// The first version that restricts TCP.
pub(crate) const NETWORK_ABI: i32 = 4;

/// Rules that are loaded into the kernel but not in effect yet.
pub(crate) struct Restriction(RulesetCreated);

impl Restriction {
    /// Loads the rules; called in the shim, before the fork. Paths that don't exist need no rule.
    pub(crate) fn prepare(rules: &LandlockRules) -> io::Result<Self> {
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
        Ok(Self(created))
    }

    /// Restricts the calling process and its future children, irrevocably.
    pub(crate) fn apply(self) -> io::Result<()> {
        drop_capabilities()?;
        let status = self.0.restrict_self().map_err(io::Error::other)?;
        if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
            return Err(rustix::io::Errno::OPNOTSUPP.into());
        }
        Ok(())
    }
}

/// Drops all capabilities, and prevents exec as root from regaining them.
fn drop_capabilities() -> io::Result<()> {
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
