//! Many executions in sequence leave no processes, descriptors or threads.

use yb_testkit::LeakCheck;

use crate::support::{Stage, init, success};

#[tokio::test]
async fn nfr_2_a_hundred_executions_leave_nothing() {
    let stage = Stage::frames(&[init(), success("ok")], 0);
    // The runtime has allocated its own resources after the first execution.
    stage.run().await;
    let check = LeakCheck::new();
    for _ in 0..100 {
        let done = stage.run().await;
        assert_eq!(done.result.exit_code, 0, "{:?}", done.log.errors);
    }
    assert_eq!(stage.terminal_logs().len(), 101);
    check.check();
}
