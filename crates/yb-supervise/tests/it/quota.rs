//! A child that fills a watched directory is ended.

use yb_supervise::End;

use crate::support::{GUARD, Stage, Way};

#[tokio::test]
async fn a_directory_that_grows_past_its_quota_ends_the_child() {
    for way in Way::EVERYWHERE {
        let stage = Stage::new(
            "[{append: {path: work/big, fill: 100000, times: 500, every_ms: 20}}, {sleep_ms: 60000}]",
        );
        let work = stage.file("work");
        std::fs::create_dir(&work).unwrap();
        let command = stage.command(way).quota(&work, 1_000_000);
        let report = tokio::time::timeout(GUARD, command.run()).await.unwrap();
        let End::OverQuota { directory, used, limit } = report.end else { panic!("{way:?}: {}", report.end) };
        assert_eq!((directory, limit), (work, 1_000_000));
        assert!(used > limit);
    }
}

#[tokio::test]
async fn a_child_that_stays_below_is_left_alone() {
    let stage = Stage::new("[{append: {path: small, fill: 1000}}, {sleep_ms: 500}]");
    assert!(stage.contained().quota(stage.path(), 1 << 40).run().await.success());
}
