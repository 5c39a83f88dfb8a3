//! The fields of suite files: the one description used by validation and `yb schema suite`.

use crate::fields::{CASE, ISOLATION, LIMITS, NETWORK, VERSION};
use crate::fields_agent::{AGENT_NAME, AGENTS, CONFIG, MODEL, PINNED};
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
        Field::new("youbencha", Kind::Whole { min: VERSION, max: VERSION }, "Format version.")
            .required(),
        Field::new("name", text(1, 200), "Name of the suite in reports.").required(),
        Field::new("description", text(1, 1000), "Description of the suite."),
        Field::new(
            "cases",
            Kind::List { of: &Kind::Either(&[formatted(500, Format::RelativePath), Kind::Part(&CASE)]), min: 1 },
            "Case files and globs, relative to this file, and inline cases. A case can omit the keys that every variant sets.",
        )
        .required(),
        Field::new(
            "variants",
            Kind::List { of: &Kind::Object(&VARIANT), min: 1 },
            "Agent configurations, each merged over the `agent` of every case; by default the agents of the cases.",
        ),
        Field::new("repeats", Kind::Whole { min: 1, max: 10_000 }, "Number of trials per combination.").default("1"),
        Field::new(
            "include",
            Kind::List { of: &Kind::Object(&SELECTOR), min: 1 },
            "Run only combinations that match one of these selectors.",
        ),
        Field::new("exclude", Kind::List { of: &Kind::Object(&SELECTOR), min: 0 }, "Skip combinations that match one of these selectors."),
        Field::new(
            "concurrency",
            Kind::Map { names: Format::Name, of: &Kind::Whole { min: 1, max: 1000 } },
            "Maximum number of concurrent trials per agent.",
        ),
        Field::new(
            "retries",
            Kind::Whole { min: 0, max: 100 },
            "Retries of a trial after an infrastructure or API failure.",
        )
        .default("2"),
        Field::new(
            "max_cost_usd",
            Kind::Number { min: 0.0, max: f64::MAX, above: true },
            "Budget of the run in USD; no more trials are started when it is exceeded.",
        ),
        Field::new("gates", Kind::Object(&GATES), "Conditions on the results; they determine the exit code."),
        Field::new("isolation", Kind::Word(ISOLATION), "Applies to all cases, unless a case is stricter."),
        Field::new("network", NETWORK, "Applies to all cases, unless a case is stricter."),
        Field::new("limits", Kind::Object(&LIMITS), "Applies to all cases, unless a case has a lower limit."),
    ],
};

const SHARE: Kind = Kind::Number { min: 0.0, max: 1.0, above: false };
const MIN_PASS_RATE: Field = Field::new("min_pass_rate", SHARE, "Minimum pass rate, such as 0.9.");
const MAX_COST_USD: Field = Field::new(
    "max_cost_usd",
    Kind::Number { min: 0.0, max: f64::MAX, above: false },
    "Maximum cost of all trials in USD. Every trial must report its cost.",
);
const MAX_LOST: Field = Field::new(
    "max_lost",
    SHARE,
    "Maximum share of trials with an infrastructure or API failure; above it, the result is inconclusive.",
)
.default("0.05");
const GATE_ISOLATION: Field =
    Field::new("isolation", Kind::Word(LEVELS), "Minimum isolation of every trial.");

/// Conditions on the results.
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
            "Require that the pass rate has not dropped compared with another run.",
        ),
        Field::new(
            "tags",
            Kind::Map { names: Format::Tag, of: &Kind::Object(&TAG_GATES) },
            "Gates for the cases with a tag.",
        ),
    ],
};

/// Conditions on the results of the cases with one tag.
pub(crate) static TAG_GATES: Object =
    Object { name: "tag_gates", fields: &[MIN_PASS_RATE, MAX_COST_USD, MAX_LOST, GATE_ISOLATION] };

/// Comparison of the results with another run.
pub(crate) static NO_REGRESSION: Object = Object {
    name: "no_regression",
    fields: &[
        Field::new("against", text(1, 200), "Baseline (`yb baseline set`) or run to compare with.")
            .required(),
        Field::new("tolerance", SHARE, "Largest drop of the pass rate that is not a regression.")
            .default("0.05"),
        Field::new("alpha", Kind::Number { min: 0.0001, max: 0.5, above: false }, "Significance level.")
            .default("0.05"),
        Field::new(
            "estimand",
            Kind::Word(ESTIMANDS),
            "Population of the conclusion: these cases, or new cases like them.",
        )
        .default("\"suite\""),
        Field::new(
            "on_inconclusive",
            Kind::Word(ON_INCONCLUSIVE),
            "Outcome of the gate when the comparison is inconclusive.",
        )
        .default("\"cannot_tell\""),
    ],
};

/// An agent configuration.
pub(crate) static VARIANT: Object = Object {
    name: "variant",
    fields: &[
        Field::new("name", text(1, 200), "Name of the variant in reports.").required(),
        Field::new("type", Kind::Word(AGENTS), "Agent, overriding that of the case."),
        Field::new("model", MODEL, "Model, overriding that of the case."),
        Field::new("version", PINNED, "Version of the agent program, overriding that of the case."),
        Field::new("agent_name", AGENT_NAME, "Agent definition to run as, overriding that of the case."),
        Field::new("config", Kind::Part(&CONFIG), "Merged key by key over `agent.config` of the case."),
        Field::new(
            "env",
            VARIABLES,
            "Environment variables for the agent, merged over `env` of the case: names to pass through, or names with values.",
        ),
        Field::new("environment", VARIABLES, "Alias of `env`."),
        Field::new("isolation", Kind::Word(ISOLATION), "Overrides that of a case if it is stricter."),
        Field::new("network", NETWORK, "Overrides that of a case if it is stricter."),
        Field::new("limits", Kind::Object(&LIMITS), "Override those of a case if they are lower."),
    ],
};

/// Selects combinations.
pub(crate) static SELECTOR: Object = Object {
    name: "selector",
    fields: &[
        Field::new("case", PATTERN, "Glob for the name of the case."),
        Field::new("variant", PATTERN, "Glob for the name of the variant."),
        Field::new("tag", formatted(50, Format::Tag), "Tag of the case."),
    ],
};
