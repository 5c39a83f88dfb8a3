//! Disk quotas.

use yb_supervise::End;

use crate::support::{AgentDir, LaunchConfig, TEST_TIMEOUT};

#[tokio::test]
async fn exceeding_quota_kills_child() {
    for config in LaunchConfig::PORTABLE {
        let agent_dir = AgentDir::new(
            "[{append: {path: work/big, fill: 100000, times: 500, every_ms: 20}}, {sleep_ms: 60000}]",
        );
        let work = agent_dir.file("work");
        std::fs::create_dir(&work).unwrap();
        let command = agent_dir.command(config).quota(&work, 1_000_000);
        let report = tokio::time::timeout(TEST_TIMEOUT, command.run()).await.unwrap();
        let End::OverQuota { directory, used, limit } = report.end else {
            panic!("{config:?}: {}", report.end)
        };
        assert_eq!((directory, limit), (work, 1_000_000));
        assert!(used > limit);
    }
}

#[tokio::test]
async fn child_within_quota_is_not_killed() {
    let agent_dir = AgentDir::new("[{append: {path: small, fill: 1000}}, {sleep_ms: 500}]");
    assert!(agent_dir.contained().quota(agent_dir.path(), 1 << 40).run().await.success());
}
