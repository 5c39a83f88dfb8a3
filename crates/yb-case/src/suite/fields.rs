//! The fields of suite files: the one description used by validation and `yb schema suite`.

use crate::fields::{CASE, ISOLATION, LIMITS, NETWORK, OVERLAY_FILES, OVERLAY_REMOVE, VERSION};
use crate::fields_agent::{AGENT_NAME, CONFIG, MODEL, PINNED};
use crate::format::Format;
use crate::gates::{ESTIMANDS, IF_MISSING, LEVELS, ON_INCONCLUSIVE};
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
        Field::new(
            "factors",
            Kind::Map { names: Format::Name, of: &LEVELS_KIND },
            "Factors with their levels, each a variant without a name, instead of `variants`. The run reports the effect of each factor.",
        ),
        Field::new(
            "design",
            Kind::Either(&[Kind::Word(&["full"]), Kind::Object(&DESIGN)]),
            "Combinations of levels that run: all, or a fraction.",
        )
        .default("\"full\""),
        Field::new(
            "vary",
            Kind::List { of: &Kind::Word(super::vary::ASPECTS), min: 1 },
            "What variants may differ in. Any other difference between them is an error, also one that only shows when the agents run: another model, CLI version, tool or sandbox.",
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
            "Stops the run when it has cost this amount; trials that it cuts stay pending.",
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

const AGAINST: Field = Field::new("against", text(1, 200), "Baseline or run to compare with.").required();
const ALPHA: Field = Field::new(
    "alpha",
    Kind::Number { min: 0.0001, max: 0.5, above: false },
    "Error probability of the decision, over all cases.",
)
.default("0.05");
const ON_INCONCLUSIVE_FIELD: Field = Field::new(
    "on_inconclusive",
    Kind::Word(ON_INCONCLUSIVE),
    "Answer of the gate if the comparison is inconclusive.",
)
.default("\"cannot_tell\"");
const IF_MISSING_FIELD: Field = Field::new(
    "if_missing",
    Kind::Word(IF_MISSING),
    "What happens if there is no such baseline or run: `error`, or the gate passes.",
)
.default("\"error\"");

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
            "no_case_dies",
            Kind::Object(&NO_CASE_DIES),
            "No case loses all its passes against a baseline or run.",
        ),
        Field::new(
            "per_case",
            Kind::Object(&PER_CASE),
            "No case's pass rate drops by more than a limit against a baseline or run.",
        ),
        Field::new(
            "min_lift",
            Kind::Object(&MIN_LIFT),
            "Minimum lift of one variant over another: passes if the lower bound of the difference exceeds it, and fails if the upper bound does not reach it.",
        ),
        Field::new(
            "tags",
            Kind::Map { names: Format::Tag, of: &Kind::Object(&TAG_GATES) },
            "Gates for the cases with a tag.",
        ),
        Field::new(
            "variants",
            Kind::Map { names: Format::Any, of: &Kind::Object(&TAG_GATES) },
            "Gates for the trials of a variant, by its name.",
        ),
        Field::new(
            "evaluators",
            Kind::Map { names: Format::Tag, of: &Kind::Object(&EVALUATOR_GATES) },
            "Gates for the verdicts of one evaluator, by its name.",
        ),
    ],
};

/// The lift of one variant over another.
pub(crate) static MIN_LIFT: Object = Object {
    name: "min_lift",
    fields: &[
        Field::new("of", text(1, 200), "Variant that has to be better.").required(),
        Field::new("over", text(1, 200), "Variant that it is compared with.").required(),
        Field::new(
            "points",
            Kind::Number { min: -100.0, max: 100.0, above: false },
            "Lift that has to be exceeded, in percentage points.",
        )
        .default("0"),
        ALPHA,
        ON_INCONCLUSIVE_FIELD,
    ],
};

/// Conditions on the results of the cases with one tag.
pub(crate) static TAG_GATES: Object =
    Object { name: "tag_gates", fields: &[MIN_PASS_RATE, MAX_COST_USD, MAX_LOST, GATE_ISOLATION] };

/// Conditions on the verdicts of one evaluator.
pub(crate) static EVALUATOR_GATES: Object = Object {
    name: "evaluator_gates",
    fields: &[Field::new(
        "min_pass_rate",
        SHARE,
        "Minimum share of the trials with this evaluator that it passes.",
    )
    .required()],
};

/// Comparison of the results with another run.
pub(crate) static NO_REGRESSION: Object = Object {
    name: "no_regression",
    fields: &[
        AGAINST,
        Field::new("tolerance", SHARE, "Tolerated drop of the pass rate.").default("0.05"),
        ALPHA,
        Field::new(
            "estimand",
            Kind::Word(ESTIMANDS),
            "Population of the decision: these cases or similar ones.",
        )
        .default("\"suite\""),
        ON_INCONCLUSIVE_FIELD,
        IF_MISSING_FIELD,
    ],
};

/// Comparison of each case with another run.
pub(crate) static NO_CASE_DIES: Object =
    Object { name: "no_case_dies", fields: &[AGAINST, ALPHA, ON_INCONCLUSIVE_FIELD, IF_MISSING_FIELD] };

/// Limit for the drop of each case.
pub(crate) static PER_CASE: Object = Object {
    name: "per_case",
    fields: &[
        AGAINST,
        Field::new("max_drop", SHARE, "Largest accepted drop of a case's pass rate.").required(),
        ALPHA,
        ON_INCONCLUSIVE_FIELD,
        IF_MISSING_FIELD,
    ],
};

const LEVELS_KIND: Kind = Kind::Map { names: Format::Name, of: &Kind::Object(&LEVEL) };

/// The combinations of factor levels that run.
static DESIGN: Object = Object {
    name: "design",
    fields: &[Field::new(
        "resolution",
        Kind::Whole { min: 3, max: 10 },
        "Runs the smallest fraction with at least this resolution; all factors need two levels. With 4, main effects are confounded neither with each other nor with interactions of two factors.",
    )
    .required()],
};

/// An agent configuration.
pub(crate) static VARIANT: Object = Object { name: "variant", fields: VARIANT_FIELDS };

/// A level of a factor: a variant without its name.
static LEVEL: Object = Object { name: "level", fields: VARIANT_FIELDS.split_at(1).1 };

const VARIANT_FIELDS: &[Field] = &[
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
    OVERLAY_FILES,
    OVERLAY_REMOVE,
    Field::new("isolation", Kind::Word(ISOLATION), "Overrides the case if stricter."),
    Field::new("network", NETWORK, "Overrides the case if stricter."),
    Field::new("limits", Kind::Object(&LIMITS), "Overrides the case if lower."),
];

/// Selects combinations.
pub(crate) static SELECTOR: Object = Object {
    name: "selector",
    fields: &[
        Field::new("case", PATTERN, "Glob for the case name."),
        Field::new("variant", PATTERN, "Glob for the variant name."),
        Field::new("tag", formatted(50, Format::Tag), "Tag of the case."),
    ],
};
