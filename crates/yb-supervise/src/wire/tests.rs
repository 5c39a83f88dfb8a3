//! Round trips of every request and event.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::*;

/// A request that uses every field.
pub(crate) fn spawn_request() -> SpawnRequest {
    SpawnRequest {
        program: "/bin/echo".into(),
        arg0: "echo".into(),
        args: vec![OsString::from_vec(vec![0xff, b'a']), "".into()],
        cwd: "/".into(),
        env: vec![("A".into(), "b=c".into())],
        method: Some(ContainmentMethod::Sweep),
        sandboxed: true,
        rules: Some(LandlockRules {
            read: vec!["/usr".into()],
            write: vec![],
            devices: vec!["/dev/null".into()],
            ports: Some(vec![443]),
            #[cfg(target_os = "linux")]
            filter: Some(crate::sandbox::SyscallFilter {
                programs: vec![vec![1; 8], vec![2; 16]],
                supervised: Some(vec![3; 8]),
            }),
        }),
        files: vec![FileContent::HostFile("/etc/services".into()), FileContent::Bytes(vec![0, b'\n'])],
        overlays: vec![
            OverlayMount::new("/lower", "/upper", "/work", "/target")
                .above(vec!["/base".into(), "/first".into()]),
            OverlayMount::new("/a", "/b", "/c", "/d"),
        ],
        limits: ResourceLimits::new().memory(1).cpu(Duration::from_secs(2)),
        open_files: Some(1024),
        id: "yb-1".into(),
        stdin: true,
        channel: true,
    }
}

#[test]
fn requests_and_events_round_trip() {
    let request = ShimRequest::Spawn(Box::new(spawn_request()));
    for request in [
        request,
        ShimRequest::Release,
        ShimRequest::Terminate,
        ShimRequest::Kill,
        ShimRequest::Pause,
        ShimRequest::Resume,
    ] {
        let frame = request.encode();
        let length = frame_length(*frame.first_chunk().unwrap()).unwrap();
        assert_eq!(length, frame.len() - 4);
        assert_eq!(ShimRequest::decode(&frame[4..]).unwrap(), request);
    }
    let usage = Usage {
        user: Duration::from_micros(7),
        system: Duration::from_micros(9),
        peak_rss_of_largest_process: 4096,
    };
    for event in [
        ShimEvent::Started,
        ShimEvent::Forked {
            pid: 7,
            start: 9,
            shim_start: 8,
            method: ContainmentMethod::Cgroup,
            cgroup: Some("/x/y".into()),
        },
        ShimEvent::Failed { stage: SpawnStage::Exec, errno: 13 },
        ShimEvent::LeaderEnded(ExitStatus::Code(-1)),
        ShimEvent::Paused,
        ShimEvent::OverLimit(ExceededLimit {
            resource: Resource::Cpu,
            used: 3,
            limit: 2,
            enforced_by: LimitEnforcer::Sampling,
        }),
        ShimEvent::Finished {
            status: Some(ExitStatus::Signal(9)),
            program_started: true,
            leaked: true,
            usage,
            unkillable: vec![3, 4],
        },
        ShimEvent::Finished {
            status: None,
            program_started: false,
            leaked: false,
            usage,
            unkillable: vec![],
        },
    ] {
        assert_eq!(ShimEvent::decode(&event.encode()[4..]).unwrap(), event);
    }
}

#[test]
fn malformed_frame_is_an_error() {
    let whole = ShimRequest::Spawn(Box::new(SpawnRequest {
        program: "/bin/echo".into(),
        arg0: "echo".into(),
        args: vec!["a".into()],
        cwd: "/".into(),
        env: vec![],
        method: None,
        sandboxed: false,
        rules: None,
        files: vec![FileContent::Bytes(vec![b'x'])],
        overlays: vec![],
        limits: ResourceLimits::new(),
        open_files: None,
        id: "yb-1".into(),
        stdin: false,
        channel: false,
    }))
    .encode();
    for length in 0..whole.len() - 4 {
        assert!(ShimRequest::decode(&whole[4..4 + length]).is_err());
        assert!(ShimEvent::decode(&whole[4..4 + length]).is_err());
    }
    assert!(frame_length(u32::MAX.to_le_bytes()).is_err());
}
