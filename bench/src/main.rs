//! Benchmarks, as ratios measured side by side in one run: `cargo run --release -p bench [NAME…]`.
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]
#![expect(clippy::disallowed_methods, reason = "bare processes are what supervised ones are compared with")]

mod adapter;
mod compare;
mod deadline;
mod decode;
mod flood;
mod flood_frames;
mod isolation;
mod large_repo;
mod otel;
mod peers;
mod provider;
mod regrade;
mod report;
mod resume;
mod runs;
mod sdk;
mod sigterm;
mod spawn;
mod stats;
mod suite;
mod tape;
mod trial;
mod view;

type Failure = Box<dyn std::error::Error>;

/// A benchmark and its bound.
struct Benchmark {
    name: &'static str,
    about: &'static str,
    run: fn() -> Result<(), Failure>,
}

const BENCHMARKS: &[Benchmark] = &[
    Benchmark {
        name: "spawn",
        about: "spawn-to-report of /bin/true: Direct at most 3x bare, Contained at most 10 ms more",
        run: spawn::run,
    },
    Benchmark {
        name: "isolation",
        about: "bubblewrap: startup at most 15 ms more than without a sandbox, git commands at most 1.1x",
        run: isolation::run,
    },
    Benchmark {
        name: "deadline",
        about: "SIGTERM at most 250 ms after the deadline; process tree dead at most 1 s after the grace period",
        run: deadline::run,
    },
    Benchmark {
        name: "flood",
        about: "2 GB of output, two secrets: at least 0.5 of `cat | cat > file`, below 40 MB resident",
        run: flood::run,
    },
    Benchmark {
        name: "flood-frames",
        about: "an agent that prints 100 MB of small frames, or 1 GB of large ones: yb below 64 MB resident",
        run: flood_frames::run,
    },
    Benchmark {
        name: "provider",
        about: "Provider::complete: at most 10 ms more than a hand-written spawn of the same command",
        run: provider::run,
    },
    Benchmark {
        name: "sdk",
        about: "query(): first request at most 10 ms later, hook below 100 µs, 1 GB unread below 64 MB, 200 runs without leaks",
        run: sdk::run,
    },
    Benchmark {
        name: "otel",
        about: "1,000 tool calls with spans: at most 2% more than with no-op hooks; a span below 20 µs",
        run: otel::run,
    },
    Benchmark {
        name: "trial",
        about: "a trivial trial: at most 1.4x a shell script, below 30 MB, further ones 12 ms; `yb --version`: at most 4x hello-world",
        run: trial::run,
    },
    Benchmark {
        name: "resume",
        about: "kill -9 at 200 random moments of 20 trials, then --resume: no trial lost or repeated, no orphans",
        run: resume::run,
    },
    Benchmark {
        name: "suite",
        about: "1,000 trivial trials: at most 3 ms CPU of yb per trial, below 60 MB; journal below 4 KB per trial",
        run: suite::run,
    },
    Benchmark {
        name: "report",
        about: "1,000 recorded trials with long conversations as HTML: at most 5 s, below 100 MB; 10,000: below 64 MB resident, exponent at most 1.1",
        run: report::run,
    },
    Benchmark {
        name: "view",
        about: "pages over a run of 10,000 trials: below 300 KB and 100 ms of CPU each, below 100 MB resident",
        run: view::run,
    },
    Benchmark {
        name: "compare",
        about: "comparison of two runs of 1,000 trials by cost, tokens, time and turns: below 1 s",
        run: compare::run,
    },
    Benchmark {
        name: "regrade",
        about: "1,000 recorded trials with distinct trees, regraded by four evaluators: below 10 s, exponent at most 1.05, deterministic",
        run: regrade::run,
    },
    Benchmark {
        name: "large-repo",
        about: "trials in 50,000 files of 0.5 GB: first at most 1.5x git clone, add, diff; further ones 0.3 s, 1.1 MB",
        run: large_repo::run,
    },
    Benchmark {
        name: "sigterm",
        about: "SIGTERM while 8 trials run: exits within 3 s, no orphans, --resume completes",
        run: sigterm::run,
    },
    Benchmark {
        name: "tape-proxy",
        about: "100 streams at 80 events/s through the recorder: added p99 latency at most 2 ms",
        run: tape::proxy,
    },
    Benchmark {
        name: "tape-replay",
        about: "1,000 replayed runs of twelve turns: below 2 ms CPU per exchange",
        run: tape::replay,
    },
    Benchmark {
        name: "adapter",
        about: "execute(): below 30 ms overhead over the real CLI; log normalization at most 2x parsing, at any size",
        run: adapter::run,
    },
    Benchmark {
        name: "peers",
        about: "the same 50-file case with other evaluation tools, 1, 50 and 500 trials (only if named)",
        run: peers::run,
    },
    Benchmark {
        name: "decode",
        about: "100 MB of recorded messages decoded into types: at least 0.7x the speed of `Value`, 3x the Python SDK",
        run: decode::run,
    },
];

fn main() -> Result<(), Failure> {
    if std::env::args().nth(1).as_deref() == Some(sdk::DIRECT) {
        return sdk::first_request("Direct");
    }
    yb_supervise::shim_main();
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if let Some(flood::CHILD) = wanted.first().map(String::as_str) {
        return flood::child(&wanted[1..]);
    }
    match wanted.first().map(String::as_str) {
        Some(sdk::FLOODED) => return sdk::flood_host(),
        Some(sdk::FLOODING) => return sdk::flood_cli(),
        _ => {}
    }
    if let Some(unknown) = wanted.iter().find(|name| BENCHMARKS.iter().all(|bench| bench.name != **name)) {
        let names: Vec<_> = BENCHMARKS.iter().map(|bench| bench.name).collect();
        return Err(format!("unknown benchmark: `{unknown}`\nhint: available: {}", names.join(", ")).into());
    }
    // As in `yb`: shims are forked.
    yb_supervise::start_keeper();
    for bench in BENCHMARKS {
        // Installs gigabytes.
        let is_default = wanted.is_empty() && bench.name != "peers";
        if is_default || wanted.iter().any(|name| name == bench.name) {
            println!("\n{}: {}", bench.name, bench.about);
            (bench.run)()?;
        }
    }
    Ok(())
}
