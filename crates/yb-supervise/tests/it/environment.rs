//! What a child gets to see.

use serde_json::Value;

use crate::support::{Stage, Way};

fn dump(stage: &Stage) -> Value {
    serde_json::from_slice(&std::fs::read(stage.file("d.json")).unwrap()).unwrap()
}

#[tokio::test]
async fn arguments_environment_and_directory_arrive_exactly() {
    for way in Way::EVERYWHERE {
        let stage = Stage::new("[{dump: d.json}]");
        let args = ["--flag=a b", "", "$(x) `y` \"z\" 'q' \\", "-", "ünï"];
        let report = stage
            .command(way)
            .args(args)
            .env("HOME", "/somewhere")
            .env("EMPTY", "")
            .env_remove("TERM")
            .run()
            .await;
        assert!(report.success(), "{}", report.end);
        let dump = dump(&stage);
        let argv: Vec<&str> =
            dump["argv"].as_array().unwrap().iter().skip(1).filter_map(Value::as_str).collect();
        assert_eq!(argv, args);
        let cwd = stage.path().canonicalize().unwrap();
        assert_eq!(dump["cwd"].as_str().unwrap(), cwd.to_str().unwrap());
        let env = dump["env"].as_object().unwrap();
        assert_eq!(env["HOME"], "/somewhere");
        assert_eq!(env["EMPTY"], "");
        let allowed = ["PATH", "LANG", "TZ", "HOME", "EMPTY", "YB_SUPERVISED"];
        for name in env.keys() {
            assert!(
                allowed.contains(&name.as_str()) || name.starts_with("LC_"),
                "{way:?}: {name} was passed on"
            );
        }
        assert!(env.contains_key("PATH"));
    }
}

#[tokio::test]
async fn inheriting_passes_the_rest_too() {
    let stage = Stage::new("[{dump: d.json}]");
    stage.contained().inherit_env().env_remove("PATH").run().await;
    let dump = dump(&stage);
    let env = dump["env"].as_object().unwrap();
    assert_eq!(env["CARGO_PKG_NAME"], "yb-supervise");
    assert!(!env.contains_key("PATH"));
}
