//! The fields of suite files: the one description used by validation and `yb schema suite`.

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
        Field::new("youbencha", Kind::Whole { min: VERSION, max: VERSION }, "Format version.")
            .required(),
        Field::new("name", text(1, 200), "Name of the suite.").required(),
        Field::new("description", text(1, 1000), "Description of the suite."),
        Field::new(
            "cases",
            Kind::List { of: &Kind::Either(&[formatted(500, Format::RelativePath), Kind::Part(&CASE)]), min: 1 },
            "Case files and globs, relative to this file, and inline cases. Keys that every variant sets may be missing in a case.",
        )
        .required(),
        Field::new(
            "variants",
            Kind::List { of: &Kind::Object(&VARIANT), min: 1 },
            "Agent configurations, merged over the `agent` of each case [default: cases unchanged].",
        ),
        Field::new("repeats", Kind::Whole { min: 1, max: 10_000 }, "Number of trials of each combination.").default("1"),
        Field::new(
            "include",
            Kind::List { of: &Kind::Object(&SELECTOR), min: 1 },
            "Run only combinations that match one of these selectors.",
        ),
        Field::new("exclude", Kind::List { of: &Kind::Object(&SELECTOR), min: 0 }, "Skip combinations that match one of these selectors."),
        Field::new(
            "concurrency",
            Kind::Map { names: Format::Name, of: &Kind::Whole { min: 1, max: 1000 } },
            "Number of trials at once, by agent.",
        ),
        Field::new(
            "retries",
            Kind::Whole { min: 0, max: 100 },
            "Retries after an infrastructure or API failure.",
        )
        .default("2"),
        Field::new(
            "max_cost_usd",
            Kind::Number { min: 0.0, max: f64::MAX, above: true },
            "Starts no further trial when the run has cost this amount.",
        ),
        Field::new("gates", Kind::Object(&GATES), "Gates, which decide the exit code."),
        Field::new("isolation", Kind::Word(ISOLATION), "Minimum for all cases; stricter values of cases apply."),
        Field::new("network", NETWORK, "Minimum for all cases; stricter values of cases apply."),
        Field::new("limits", Kind::Object(&LIMITS), "Maximum for all cases; lower values of cases apply."),
    ],
};

const SHARE: Kind = Kind::Number { min: 0.0, max: 1.0, above: false };
const MIN_PASS_RATE: Field = Field::new("min_pass_rate", SHARE, "Minimum pass rate, such as 0.9.");
const MAX_COST_USD: Field = Field::new(
    "max_cost_usd",
    Kind::Number { min: 0.0, max: f64::MAX, above: false },
    "Maximum cost of all attempts; inconclusive if a cost is unknown.",
);
const MAX_LOST: Field = Field::new(
    "max_lost",
    SHARE,
    "Maximum share of trials excluded by infrastructure or API failures; above, the result is inconclusive.",
)
.default("0.05");
const GATE_ISOLATION: Field = Field::new("isolation", Kind::Word(LEVELS), "Minimum isolation of all agents.");

/// Conditions on the results.
pub(crate) static GATES: Object = Object {
    name: "gates",
    fields: &[
        MIN_PASS_RATE,
        MAX_COST_USD,
        MAX_LOST,
        GATE_ISOLATION,
        Field::new("no_regression", Kind::Object(&NO_REGRESSION), "No regression against a baseline or run."),
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
        Field::new("against", text(1, 200), "Baseline or run to compare with.").required(),
        Field::new("tolerance", SHARE, "Tolerated drop of the pass rate.").default("0.05"),
        Field::new(
            "alpha",
            Kind::Number { min: 0.0001, max: 0.5, above: false },
            "Error probability of the decision.",
        )
        .default("0.05"),
        Field::new(
            "estimand",
            Kind::Word(ESTIMANDS),
            "Population of the decision: these cases or similar ones.",
        )
        .default("\"suite\""),
        Field::new(
            "on_inconclusive",
            Kind::Word(ON_INCONCLUSIVE),
            "Answer of the gate if the comparison is inconclusive.",
        )
        .default("\"cannot_tell\""),
    ],
};

/// An agent configuration.
pub(crate) static VARIANT: Object = Object {
    name: "variant",
    fields: &[
        Field::new("name", text(1, 200), "Name of the variant.").required(),
        Field::new("type", Kind::AgentType, "Agent type, overriding the case."),
        Field::new("model", MODEL, "Model, overriding the case."),
        Field::new("version", PINNED, "Version of the agent CLI, overriding the case."),
        Field::new("agent_name", AGENT_NAME, "Agent definition to run, overriding the case."),
        Field::new(
            "config",
            Kind::Part(&CONFIG),
            "Options of the agent, merged key by key over `agent.config` of the case.",
        ),
        Field::new(
            "env",
            VARIABLES,
            "Environment variables of the agent, merged over `env` of the case: names to pass through, or names with values.",
        ),
        Field::new("environment", VARIABLES, "Alias of `env`."),
        Field::new("isolation", Kind::Word(ISOLATION), "Overrides the case if stricter."),
        Field::new("network", NETWORK, "Overrides the case if stricter."),
        Field::new("limits", Kind::Object(&LIMITS), "Overrides the case if lower."),
    ],
};

/// Selects combinations.
pub(crate) static SELECTOR: Object = Object {
    name: "selector",
    fields: &[
        Field::new("case", PATTERN, "Glob for the case name."),
        Field::new("variant", PATTERN, "Glob for the variant name."),
        Field::new("tag", formatted(50, Format::Tag), "Tag of the case."),
    ],
};
