//! Many executions one after the other, and nothing is left of them.

use yb_testkit::LeakCheck;

use crate::support::{Stage, init, success};

#[tokio::test]
async fn nfr_2_a_hundred_executions_leave_nothing() {
    let stage = Stage::frames(&[init(), success("ok")], 0);
    // What the runtime keeps for itself is there after the first.
    stage.run().await;
    let check = LeakCheck::new();
    for _ in 0..100 {
        let done = stage.run().await;
        assert_eq!(done.result.exit_code, 0, "{:?}", done.log.errors);
    }
    assert_eq!(stage.terminal_logs().len(), 101);
    check.check();
}
