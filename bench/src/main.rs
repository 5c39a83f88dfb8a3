//! Speed, as ratios measured side by side in one run: `cargo run --release -p bench [NAME…]`.
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]
#![expect(clippy::disallowed_methods, reason = "bare processes are what supervised ones are compared with")]

mod adapter;
mod compare;
mod deadline;
mod decode;
mod flood;
mod isolation;
mod otel;
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

type Failure = Box<dyn std::error::Error>;

/// A benchmark, and the bound that the design sets for it.
struct Bench {
    name: &'static str,
    about: &'static str,
    run: fn() -> Result<(), Failure>,
}

const BENCHES: &[Bench] = &[
    Bench {
        name: "spawn",
        about: "spawn-to-report of /bin/true: Direct at most 3 x bare, Contained at most 10 ms more",
        run: spawn::run,
    },
    Bench {
        name: "isolation",
        about: "bubblewrap: at most 15 ms more than none at the start, at most 1.1 x none for work with git",
        run: isolation::run,
    },
    Bench {
        name: "deadline",
        about: "SIGTERM at most 250 ms after the deadline; the tree is dead at most 1 s after the grace",
        run: deadline::run,
    },
    Bench {
        name: "flood",
        about: "2 GB of output, two secrets: at least 0.5 of `cat | cat > file`, below 40 MB resident",
        run: flood::run,
    },
    Bench {
        name: "provider",
        about: "Provider::complete: at most 10 ms more than a hand-written spawn of the same command",
        run: provider::run,
    },
    Bench {
        name: "sdk",
        about: "query(): at most 10 ms more to the first request, a hook below 100 µs, 1 GB unread below 64 MB, 200 runs clean",
        run: sdk::run,
    },
    Bench {
        name: "otel",
        about: "1,000 tool calls with spans: at most 2 % more than with hooks that do nothing; a span below 20 µs",
        run: otel::run,
    },
    Bench {
        name: "trial",
        about: "a whole trivial trial: at most 1.6 x a shell script, below 30 MB; `yb --version`: at most 4 x hello-world",
        run: trial::run,
    },
    Bench {
        name: "resume",
        about: "kill -9 at 200 random moments of 20 trials, then --resume: nothing lost, repeated or left alive",
        run: resume::run,
    },
    Bench {
        name: "suite",
        about: "1,000 trivial trials: yb itself at most 3 ms CPU each, below 60 MB; journal below 4 KB each",
        run: suite::run,
    },
    Bench {
        name: "report",
        about: "1,000 recorded trials with long conversations as HTML: at most 5 s, below 100 MB",
        run: report::run,
    },
    Bench {
        name: "compare",
        about: "two runs of 1,000 trials compared, with cost, tokens, time and turns: below 1 s",
        run: compare::run,
    },
    Bench {
        name: "regrade",
        about: "1,000 recorded trials, all trees different, graded again by four evaluators: below 10 s, the same bytes twice",
        run: regrade::run,
    },
    Bench {
        name: "sigterm",
        about: "SIGTERM while 8 trials run: gone within 3 s, nothing left alive, --resume completes",
        run: sigterm::run,
    },
    Bench {
        name: "tape-proxy",
        about: "100 streams at 80 events/s through the recorder: an event at most 2 ms later at p99 than directly",
        run: tape::proxy,
    },
    Bench {
        name: "tape-replay",
        about: "1,000 replayed runs of twelve turns: below 2 ms CPU for each exchange",
        run: tape::replay,
    },
    Bench {
        name: "adapter",
        about: "execute(): less than 30 ms beside the real CLI; lines into a log: at most 2 x reading them, at any size",
        run: adapter::run,
    },
    Bench {
        name: "decode",
        about: "100 MB of recorded frames into typed messages: at least 0.7 of `Value`, 3 x the Python SDK",
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
        Some(sdk::FLOODED) => return sdk::flooded(),
        Some(sdk::FLOODING) => return sdk::flooding(),
        _ => {}
    }
    if let Some(unknown) = wanted.iter().find(|name| BENCHES.iter().all(|bench| bench.name != **name)) {
        let names: Vec<_> = BENCHES.iter().map(|bench| bench.name).collect();
        return Err(format!("no benchmark is called `{unknown}`; there are: {}", names.join(", ")).into());
    }
    for bench in BENCHES {
        if wanted.is_empty() || wanted.iter().any(|name| name == bench.name) {
            println!("\n{}: {}", bench.name, bench.about);
            (bench.run)()?;
        }
    }
    Ok(())
}
