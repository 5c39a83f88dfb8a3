//! Factors: levels merged to variants, full and fractional designs.

use crate::suite::Files;

const TWO: &str = "cases: [one.yaml]
factors:
  instructions:
    none: { remove: [CLAUDE.md] }
    strict: { files: { CLAUDE.md: md/strict.md }, env: { MODE: '${ENV:MODE}' } }
  effort:
    low: { config: { effort: low } }
    high: { config: { effort: high, max_turns: 9 } }
    max: { config: { effort: max } }
";

fn files() -> Files {
    let files = Files::new();
    files.write("md/strict.md", "strict");
    files.case("one.yaml", "one", "");
    files
}

#[test]
fn levels_are_merged_to_variants() {
    let suite = files().good(TWO);
    let names: Vec<&str> = suite.combinations.iter().map(|one| one.variant.as_str()).collect();
    assert_eq!(names, ["none_low", "none_high", "none_max", "strict_low", "strict_high", "strict_max"]);
    let last = &suite.combinations[4].case;
    assert_eq!(last.agent.config.effort.as_deref(), Some("high"));
    assert_eq!(last.agent.config.max_turns, Some(9));
    assert_eq!(last.overlay.targets().collect::<Vec<_>>(), ["CLAUDE.md"]);
    assert_eq!(last.env[0].name, "MODE");
    assert_eq!(suite.combinations[0].case.overlay.layers[0].remove, ["CLAUDE.md"]);
    let design = suite.design.unwrap();
    assert_eq!((design.resolution, design.factors[1].levels.len()), (None, 3));
    assert_eq!(design.variants["strict_low"], ["strict", "low"]);
}

#[test]
fn levels_with_equal_names_are_named_with_their_factor() {
    let suite = files().good(
        "cases: [one.yaml]
factors:
  a: { off: {}, on: { config: { effort: high } } }
  b: { off: {}, on: { config: { max_turns: 3 } } }
",
    );
    let names: Vec<&str> = suite.combinations.iter().map(|one| one.variant.as_str()).collect();
    assert_eq!(names, ["a-off_b-off", "a-off_b-on", "a-on_b-off", "a-on_b-on"]);
}

/// Four factors with two levels each.
fn four(design: &str) -> String {
    let factors: String = ["max_turns: 1", "effort: high", "max_tokens: 5", "system_prompt: x"]
        .iter()
        .enumerate()
        .map(|(at, config)| format!("  f{at}: {{ off{at}: {{}}, on{at}: {{ config: {{ {config} }} }} }}\n"))
        .collect();
    format!("cases: [one.yaml]\ndesign: {design}\nfactors:\n{factors}")
}

#[test]
fn fraction_has_its_resolution() {
    let suite = files().good(&four("{ resolution: 4 }"));
    assert_eq!(suite.combinations.len(), 8);
    let design = suite.design.unwrap();
    assert_eq!((design.resolution, design.generators), (Some(4), vec!["D=ABC".to_owned()]));
    assert_eq!(files().good(&four("full")).combinations.len(), 16);
}

#[test]
fn unusable_factors_are_errors_with_their_place() {
    let files = files();
    for (text, expected) in [
        (four("{ resolution: 5 }"), "no fraction of 4 factors has resolution 5 [design]"),
        (
            TWO.replace("factors:", "design: { resolution: 3 }\nfactors:"),
            "a fraction needs factors with two levels; `effort` has more [design]",
        ),
        (
            TWO.replace("none: { remove: [CLAUDE.md] }\n", ""),
            "factor with fewer than two levels: `instructions` [factors.instructions]",
        ),
        (
            TWO.replace("factors:", "variants: [{ name: x }]\nfactors:"),
            "both `factors` and `variants` given [variants]",
        ),
        (
            TWO.replace("factors:", "exclude: [{ variant: none_low }]\nfactors:"),
            "`exclude` with `variant` would unbalance the design [exclude.variant]",
        ),
        (
            TWO.replace("env: {", "config: { effort: low }, env: {"),
            "factors `instructions` and `effort` both set `config.effort` [factors.effort.low.config.effort]",
        ),
        (
            TWO.replace("md/strict.md", "md/none.md"),
            "failed to read `md/none.md` (no such file) [factors.files.CLAUDE.md]",
        ),
        ("cases: [one.yaml]\ndesign: full\n".to_owned(), "`design` requires `factors` [design]"),
    ] {
        let loaded = files.load(&text);
        let messages = files.messages(&loaded);
        let (message, key) = expected.split_once(" [").unwrap();
        let has_both = messages.contains(message) && messages.contains(&format!("[{key}"));
        assert!(loaded.suite.is_none() && has_both, "{expected}\n{messages}");
    }
}
