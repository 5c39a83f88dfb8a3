//! Arguments, environment and working directory of a child.

use serde_json::Value;

use crate::support::{AgentDir, LaunchConfig};

fn dump(agent_dir: &AgentDir) -> Value {
    serde_json::from_slice(&std::fs::read(agent_dir.file("d.json")).unwrap()).unwrap()
}

#[tokio::test]
async fn arguments_environment_and_cwd_are_passed_unchanged() {
    for config in LaunchConfig::PORTABLE {
        let agent_dir = AgentDir::new("[{dump: d.json}]");
        let args = ["--flag=a b", "", "$(x) `y` \"z\" 'q' \\", "-", "ünï"];
        let report = agent_dir
            .command(config)
            .args(args)
            .env("HOME", "/somewhere")
            .env("EMPTY", "")
            .env_remove("TERM")
            .run()
            .await;
        assert!(report.success(), "{}", report.end);
        let dump = dump(&agent_dir);
        let argv: Vec<&str> =
            dump["argv"].as_array().unwrap().iter().skip(1).filter_map(Value::as_str).collect();
        assert_eq!(argv, args);
        let cwd = agent_dir.path().canonicalize().unwrap();
        assert_eq!(dump["cwd"].as_str().unwrap(), cwd.to_str().unwrap());
        let env = dump["env"].as_object().unwrap();
        assert_eq!(env["HOME"], "/somewhere");
        assert_eq!(env["EMPTY"], "");
        let allowed = ["PATH", "LANG", "TZ", "HOME", "EMPTY", "YB_SUPERVISED"];
        for name in env.keys() {
            assert!(
                allowed.contains(&name.as_str()) || name.starts_with("LC_"),
                "{config:?}: {name} was passed on"
            );
        }
        assert!(env.contains_key("PATH"));
    }
}

#[tokio::test]
async fn inherit_env_passes_whole_environment() {
    let agent_dir = AgentDir::new("[{dump: d.json}]");
    agent_dir.contained().inherit_env().env_remove("PATH").run().await;
    let dump = dump(&agent_dir);
    let env = dump["env"].as_object().unwrap();
    assert_eq!(env["CARGO_PKG_NAME"], "yb-supervise");
    assert!(!env.contains_key("PATH"));
}
