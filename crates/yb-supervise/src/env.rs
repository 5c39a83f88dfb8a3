//! The child's environment: an allowlist by default, plus the caller's changes.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// The variable that marks every process of a supervised tree, so that a sweep can recognize it.
pub(crate) const MARKER: &str = "YB_SUPERVISED";

/// Inherited by default, in addition to `LC_*`. HOME and TMPDIR are missing on purpose: the caller decides
/// where a child may write.
const ALLOWED: [&str; 4] = ["PATH", "LANG", "TERM", "TZ"];

/// Windows programs can't load their libraries without these.
#[cfg(windows)]
const REQUIRED_ON_WINDOWS: [&str; 4] = ["SystemRoot", "SystemDrive", "PATHEXT", "COMSPEC"];

/// The changes requested by the caller, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct EnvPlan {
    inherit: bool,
    changes: Vec<(OsString, Option<OsString>)>,
}

impl EnvPlan {
    pub(crate) fn inherit(&mut self) {
        self.inherit = true;
    }

    pub(crate) fn set(&mut self, name: OsString, value: OsString) {
        self.changes.push((name, Some(value)));
    }

    pub(crate) fn remove(&mut self, name: OsString) {
        self.changes.push((name, None));
    }

    /// Returns the child's environment, given the host's.
    pub(crate) fn resolve(
        &self,
        host: impl Iterator<Item = (OsString, OsString)>,
    ) -> BTreeMap<OsString, OsString> {
        let mut result: BTreeMap<_, _> = host.filter(|(name, _)| self.inherit || is_allowed(name)).collect();
        for (name, change) in &self.changes {
            #[cfg(windows)]
            result.retain(|known, _| !is_same_name(known, name));
            match change {
                Some(value) => result.insert(name.clone(), value.clone()),
                None => result.remove(name),
            };
        }
        result
    }
}

/// Returns the value of a variable.
pub(crate) fn value<'a>(env: &'a BTreeMap<OsString, OsString>, name: &str) -> Option<&'a OsStr> {
    let found = env.iter().find(|(known, _)| is_same_name(known, OsStr::new(name)));
    found.map(|(_, value)| value.as_os_str())
}

/// Whether both name the same variable: Windows ignores case, and calls PATH `Path`.
fn is_same_name(one: &OsStr, other: &OsStr) -> bool {
    if cfg!(windows) { one.eq_ignore_ascii_case(other) } else { one == other }
}

fn is_allowed(name: &OsStr) -> bool {
    #[cfg(windows)]
    if ALLOWED.iter().chain(&REQUIRED_ON_WINDOWS).any(|needed| name.eq_ignore_ascii_case(needed)) {
        return true;
    }
    name.to_str().is_some_and(|name| ALLOWED.contains(&name) || name.starts_with("LC_"))
}

/// Prepares the program for exec, with the marker added to its environment.
#[cfg(unix)]
pub(crate) fn build_exec<'a>(
    program: &std::path::Path,
    arg0: &'a OsStr,
    args: &'a [OsString],
    env: impl Iterator<Item = (&'a OsString, &'a OsString)>,
    id: &'a str,
) -> std::io::Result<crate::sys::Exec> {
    let argv = std::iter::once(arg0).chain(args.iter().map(OsString::as_os_str));
    let env = env.map(|(name, value)| (name.as_os_str(), value.as_os_str()));
    crate::sys::Exec::new(program, argv, env.chain([(OsStr::new(MARKER), OsStr::new(id))]))
}

/// Returns the marker of a child as it appears in an environment block.
#[cfg(unix)]
pub(crate) fn marker(id: &str) -> Vec<u8> {
    format!("{MARKER}={id}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(plan: &EnvPlan, expected: &[(&str, &str)]) {
        let host = [("PATH", "/bin"), ("LC_ALL", "C"), ("HOME", "/h"), ("SECRET", "s"), ("LANGUAGE", "x")];
        let host = host.into_iter().map(|(name, value)| (name.into(), value.into()));
        let got = plan.resolve(host);
        let expected: BTreeMap<OsString, OsString> =
            expected.iter().map(|(name, value)| (name.into(), value.into())).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn only_allowlist_is_inherited_by_default() {
        check(&EnvPlan::default(), &[("PATH", "/bin"), ("LC_ALL", "C")]);
    }

    #[test]
    fn env_changes_apply_in_order() {
        let mut plan = EnvPlan::default();
        plan.set("HOME".into(), "/tmp/h".into());
        plan.set("PATH".into(), "/x".into());
        plan.remove("PATH".into());
        plan.remove("LC_ALL".into());
        check(&plan, &[("HOME", "/tmp/h")]);
    }

    #[cfg(windows)]
    #[test]
    fn windows_names_are_case_insensitive() {
        let mut plan = EnvPlan::default();
        plan.set("PATH".into(), "C:\\b".into());
        plan.remove("systemroot".into());
        let host = [("Path", "C:\\a"), ("SystemRoot", "C:\\windows"), ("PathExt", ".EXE"), ("Secret", "s")];
        let env = plan.resolve(host.into_iter().map(|(name, value)| (name.into(), value.into())));
        assert_eq!(env.len(), 2, "{env:?}");
        assert_eq!(value(&env, "path"), Some(OsStr::new("C:\\b")));
        assert_eq!(value(&env, "PATHEXT"), Some(OsStr::new(".EXE")));
    }

    #[test]
    fn inherited_env_honors_removals() {
        let mut plan = EnvPlan::default();
        plan.inherit();
        plan.remove("SECRET".into());
        check(&plan, &[("PATH", "/bin"), ("LC_ALL", "C"), ("HOME", "/h"), ("LANGUAGE", "x")]);
    }
}
