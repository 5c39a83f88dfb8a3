//! The fields of a suite file, described once: what the decoder checks and what `yb schema suite` prints.

use crate::fields::{CASE, ISOLATION, LIMITS, NETWORK, VERSION};
use crate::fields_agent::{AGENT_NAME, CONFIG, MODEL, PINNED};
use crate::format::Format;
use crate::gates::{ESTIMANDS, LEVELS, ON_INCONCLUSIVE};
use crate::shape::{Field, Kind, Object, formatted, text};

const VARIABLES: Kind = Kind::Either(&[
    Kind::Map { names: Format::EnvName, of: &text(0, usize::MAX) },
    Kind::List { of: &formatted(200, Format::EnvName), min: 0 },
]);
const PATTERN: Kind = text(1, 200);

/// A suite file.
pub(crate) static SUITE: Object = Object {
    name: "suite",
    fields: &[
        Field::new("youbencha", Kind::Whole { min: VERSION, max: VERSION }, "The version of the format.")
            .required(),
        Field::new("name", text(1, 200), "What the suite is called in reports.").required(),
        Field::new("description", text(1, 1000), "What the suite is about."),
        Field::new(
            "cases",
            Kind::List { of: &Kind::Either(&[formatted(500, Format::RelativePath), Kind::Part(&CASE)]), min: 1 },
            "Case files and globs, relative to this file, and whole cases. A case may leave out what every variant gives.",
        )
        .required(),
        Field::new(
            "variants",
            Kind::List { of: &Kind::Object(&VARIANT), min: 1 },
            "Agent configurations, each merged over the `agent` of every case; by default the cases' own.",
        ),
        Field::new("repeats", Kind::Whole { min: 1, max: 10_000 }, "How often each combination runs.").default("1"),
        Field::new(
            "include",
            Kind::List { of: &Kind::Object(&SELECTOR), min: 1 },
            "Only combinations that one of these matches.",
        ),
        Field::new("exclude", Kind::List { of: &Kind::Object(&SELECTOR), min: 0 }, "No combination that one of these matches."),
        Field::new(
            "concurrency",
            Kind::Map { names: Format::Name, of: &Kind::Whole { min: 1, max: 1000 } },
            "How many trials of an agent run at once.",
        ),
        Field::new(
            "retries",
            Kind::Whole { min: 0, max: 100 },
            "How often a trial is tried again that the machine or the API failed.",
        )
        .default("2"),
        Field::new(
            "max_cost_usd",
            Kind::Number { min: 0.0, max: f64::MAX, above: true },
            "No trial is started when the others have cost this much.",
        ),
        Field::new("gates", Kind::Object(&GATES), "What the results have to hold: they decide the exit code."),
        Field::new("isolation", Kind::Word(ISOLATION), "For all cases; a stricter one of theirs holds."),
        Field::new("network", NETWORK, "For all cases; a stricter one of theirs holds."),
        Field::new("limits", Kind::Object(&LIMITS), "For all cases; lower ones of theirs hold."),
    ],
};

const SHARE: Kind = Kind::Number { min: 0.0, max: 1.0, above: false };
const MIN_PASS_RATE: Field =
    Field::new("min_pass_rate", SHARE, "At least this share of the trials passes, such as 0.9.");
const MAX_COST_USD: Field = Field::new(
    "max_cost_usd",
    Kind::Number { min: 0.0, max: f64::MAX, above: false },
    "The trials cost no more than this, and all tell what they cost.",
);
const MAX_LOST: Field = Field::new(
    "max_lost",
    SHARE,
    "No more than this share of the trials is lost to the machine or the API; otherwise nobody can tell.",
)
.default("0.05");
const GATE_ISOLATION: Field = Field::new(
    "isolation",
    Kind::Word(LEVELS),
    "What stood between every agent and the machine, or something stronger.",
);

/// What the results have to hold.
pub(crate) static GATES: Object = Object {
    name: "gates",
    fields: &[
        MIN_PASS_RATE,
        MAX_COST_USD,
        MAX_LOST,
        GATE_ISOLATION,
        Field::new(
            "no_regression",
            Kind::Object(&NO_REGRESSION),
            "The pass rate is not lower than another run's.",
        ),
        Field::new(
            "tags",
            Kind::Map { names: Format::Tag, of: &Kind::Object(&TAG_GATES) },
            "The same for the cases with a tag.",
        ),
    ],
};

/// What the results of the cases with one tag have to hold.
pub(crate) static TAG_GATES: Object =
    Object { name: "tag_gates", fields: &[MIN_PASS_RATE, MAX_COST_USD, MAX_LOST, GATE_ISOLATION] };

/// Which run the results are compared with, and how.
pub(crate) static NO_REGRESSION: Object = Object {
    name: "no_regression",
    fields: &[
        Field::new("against", text(1, 200), "A baseline (`yb baseline set`) or a run.").required(),
        Field::new("tolerance", SHARE, "A loss of pass rate up to this is no regression.").default("0.05"),
        Field::new(
            "alpha",
            Kind::Number { min: 0.0001, max: 0.5, above: false },
            "How often the answer may be wrong.",
        )
        .default("0.05"),
        Field::new(
            "estimand",
            Kind::Word(ESTIMANDS),
            "Whether the answer is about these cases or about others like them.",
        )
        .default("\"suite\""),
        Field::new("on_inconclusive", Kind::Word(ON_INCONCLUSIVE), "What it counts as when nobody can tell.")
            .default("\"cannot_tell\""),
    ],
};

/// An agent configuration.
pub(crate) static VARIANT: Object = Object {
    name: "variant",
    fields: &[
        Field::new("name", text(1, 200), "What the variant is called in reports.").required(),
        Field::new("type", Kind::AgentType, "The agent, instead of the case's."),
        Field::new("model", MODEL, "The model, instead of the case's."),
        Field::new("version", PINNED, "The version of the agent's program, instead of the case's."),
        Field::new("agent_name", AGENT_NAME, "The agent's own definition to run as, instead of the case's."),
        Field::new("config", Kind::Part(&CONFIG), "Merged key by key over the case's `agent.config`."),
        Field::new(
            "env",
            VARIABLES,
            "Variables for the agent, merged over the case's `env`: names to pass on, or names with values.",
        ),
        Field::new("environment", VARIABLES, "Another name of `env`."),
        Field::new("isolation", Kind::Word(ISOLATION), "Instead of a case's, where it is stricter."),
        Field::new("network", NETWORK, "Instead of a case's, where it is stricter."),
        Field::new("limits", Kind::Object(&LIMITS), "Instead of a case's, where they are lower."),
    ],
};

/// Which combinations.
pub(crate) static SELECTOR: Object = Object {
    name: "selector",
    fields: &[
        Field::new("case", PATTERN, "A glob for the case's name."),
        Field::new("variant", PATTERN, "A glob for the variant's name."),
        Field::new("tag", formatted(50, Format::Tag), "A tag of the case."),
    ],
};
