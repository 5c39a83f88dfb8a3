//! How a program is started in a sandbox: through a wrapper program, or restricted by Landlock.

use std::collections::BTreeMap;
#[cfg(unix)]
use std::ffi::OsStr;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::Sandbox;
#[cfg(target_os = "linux")]
use super::{BwrapParent, Network, SandboxKind};
use crate::backend::BackendKind;
use crate::egress_proxy::EgressProxySetup;
use crate::error::SpawnError;

/// A program with its `argv[0]` and arguments.
pub(crate) type ProgramInvocation = (PathBuf, OsString, Vec<OsString>);

/// What a sandbox changes about starting a program.
#[derive(Default)]
pub(crate) struct SandboxPlan {
    /// The program that sets up the sandbox and starts the requested one. It replaces the requested invocation.
    pub(crate) wrapper: Option<ProgramInvocation>,
    /// Whether the wrapper keeps running and is the leader of the tree, instead of executing the program.
    #[cfg(unix)]
    pub(crate) wrapper_is_leader: bool,
    /// The Landlock rules that the child applies to itself.
    #[cfg(unix)]
    pub(crate) rules: Option<crate::wire::LandlockRules>,
    /// The contents of files that exist only in the sandbox.
    #[cfg(unix)]
    pub(crate) files: Vec<crate::wire::FileContent>,
}

#[cfg(target_os = "linux")]
pub(crate) fn plan_sandbox(
    sandbox: &Sandbox,
    backend: &BackendKind,
    program: &Path,
    args: &[OsString],
    cwd: &Path,
    env: &BTreeMap<OsString, OsString>,
    proxy_setup: Option<&EgressProxySetup>,
) -> Result<SandboxPlan, SpawnError> {
    // The sandbox dies with the thread that started it, and only a shim has a single thread.
    if matches!(backend, BackendKind::Direct) {
        return Err(SpawnError::NoShim);
    }
    let search = env.get(OsStr::new("PATH")).map(OsString::as_os_str);
    if let (Some(overlay), SandboxKind::Landlock) = (sandbox.overlays().next(), sandbox.kind) {
        let source = std::io::Error::new(std::io::ErrorKind::Unsupported, "landlock has no overlays");
        return Err(SpawnError::SandboxPath { path: overlay.target.clone(), source });
    }
    match sandbox.kind {
        SandboxKind::Bubblewrap => {
            let bwrap = super::bubblewrap().map_err(SpawnError::SandboxUnavailable)?;
            let mut files = Vec::new();
            let parent = BwrapParent::Shim { files: &mut files };
            let args = super::bwrap_args(sandbox, program, args, cwd, search, parent)?;
            let wrapper = Some((bwrap, "bwrap".into(), args));
            Ok(SandboxPlan { wrapper, wrapper_is_leader: true, files, ..SandboxPlan::default() })
        }
        SandboxKind::Landlock => {
            SandboxKind::Landlock.probe().map_err(SpawnError::SandboxUnavailable)?;
            if sandbox.network != Network::Shared {
                SandboxKind::Landlock.probe_network().map_err(SpawnError::SandboxUnavailable)?;
            }
            let mut rules = super::rules(sandbox, program, cwd, search)?;
            let proxy_port = proxy_setup.and_then(EgressProxySetup::port);
            if let (Some(ports), Some(port)) = (&mut rules.ports, proxy_port) {
                ports.push(port);
            }
            Ok(SandboxPlan { rules: Some(rules), ..SandboxPlan::default() })
        }
    }
}

#[cfg(target_os = "macos")]
pub(crate) fn plan_sandbox(
    sandbox: &Sandbox,
    _: &BackendKind,
    program: &Path,
    args: &[OsString],
    _: &Path,
    env: &BTreeMap<OsString, OsString>,
    proxy_setup: Option<&EgressProxySetup>,
) -> Result<SandboxPlan, SpawnError> {
    sandbox.kind.probe().map_err(SpawnError::SandboxUnavailable)?;
    let search = env.get(OsStr::new("PATH")).map(OsString::as_os_str);
    let profile = super::profile(sandbox, program, search, proxy_setup.and_then(EgressProxySetup::port));
    let mut all: Vec<OsString> = vec!["-p".into(), profile.into(), program.into()];
    all.extend(args.iter().cloned());
    // `sandbox-exec` executes the program, so the leader is the child itself.
    let wrapper = Some((super::SANDBOX_EXEC.into(), "sandbox-exec".into(), all));
    Ok(SandboxPlan { wrapper, ..SandboxPlan::default() })
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub(crate) fn plan_sandbox(
    _: &Sandbox,
    _: &BackendKind,
    _: &Path,
    _: &[OsString],
    _: &Path,
    _: &BTreeMap<OsString, OsString>,
    _: Option<&EgressProxySetup>,
) -> Result<SandboxPlan, SpawnError> {
    Err(match Sandbox::probe() {
        Err(unavailable) => SpawnError::SandboxUnavailable(unavailable),
        Ok(()) => SpawnError::NoShim,
    })
}
