//! What a child gets to see of the environment: a short list, unless the caller says otherwise.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// The variable that marks every process of a supervised tree, so that a sweep can recognise it.
pub(crate) const MARKER: &str = "YB_SUPERVISED";

/// Passed on by default, beside every `LC_*`: what a program needs to find others and to speak to a person.
/// HOME and TMPDIR are not among them: where a child may leave things is the caller's choice.
const PASSED_ON: [&str; 4] = ["PATH", "LANG", "TERM", "TZ"];

/// Without these a Windows program can't even load its libraries.
#[cfg(windows)]
const NEEDED_BY_THE_SYSTEM: [&str; 4] = ["SystemRoot", "SystemDrive", "PATHEXT", "COMSPEC"];

/// The changes that a caller asked for, in order.
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

    /// The child's environment, given the host's.
    pub(crate) fn resolve(
        &self,
        host: impl Iterator<Item = (OsString, OsString)>,
    ) -> BTreeMap<OsString, OsString> {
        let mut result: BTreeMap<_, _> =
            host.filter(|(name, _)| self.inherit || is_passed_on(name)).collect();
        for (name, change) in &self.changes {
            match change {
                Some(value) => result.insert(name.clone(), value.clone()),
                None => result.remove(name),
            };
        }
        result
    }
}

fn is_passed_on(name: &OsStr) -> bool {
    #[cfg(windows)]
    if NEEDED_BY_THE_SYSTEM.iter().any(|needed| name.eq_ignore_ascii_case(needed)) {
        return true;
    }
    name.to_str().is_some_and(|name| PASSED_ON.contains(&name) || name.starts_with("LC_"))
}

/// The child's program, arguments and marked environment, ready to be executed.
#[cfg(unix)]
pub(crate) fn exec<'a>(
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

/// The marker of one child as it stands in an environment block.
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
    fn only_the_short_list_passes_by_default() {
        check(&EnvPlan::default(), &[("PATH", "/bin"), ("LC_ALL", "C")]);
    }

    #[test]
    fn changes_apply_in_order() {
        let mut plan = EnvPlan::default();
        plan.set("HOME".into(), "/tmp/h".into());
        plan.set("PATH".into(), "/x".into());
        plan.remove("PATH".into());
        plan.remove("LC_ALL".into());
        check(&plan, &[("HOME", "/tmp/h")]);
    }

    #[test]
    fn inheriting_is_explicit_and_can_still_remove() {
        let mut plan = EnvPlan::default();
        plan.inherit();
        plan.remove("SECRET".into());
        check(&plan, &[("PATH", "/bin"), ("LC_ALL", "C"), ("HOME", "/h"), ("LANGUAGE", "x")]);
    }
}
