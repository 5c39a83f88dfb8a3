//! Factors: each level is a fragment of a variant, and the variants are combinations of levels.

use std::collections::BTreeMap;

use super::variant::{self, Variant};
use yb_stats::{Factor, FactorialDesign, fractional_factorial, full_factorial};
use yb_yaml::diagnostic::{Diagnostics, quoted};
use yb_yaml::{Entry, Node, Value};

/// The maximum number of variants of a design.
const MAX_VARIANTS: usize = 1024;

/// Reads the validated `factors` and `design`, and returns the variants with their design. `None` without factors.
pub(super) fn read(root: &Node, found: &mut Diagnostics<'_>) -> Option<(Vec<Variant>, FactorialDesign)> {
    if let (Some(design), None) = (root.entry("design"), root.get("factors")) {
        found.error(design.key.span, "design", "`design` requires `factors`").hint("remove it");
    }
    let entries = root.get("factors")?.entries();
    check_selection(root, found);
    let mut sound = !entries.is_empty();
    for factor in entries.iter().filter(|factor| factor.node.entries().len() < 2) {
        let message = format!("factor with fewer than two levels: {}", quoted(&factor.key.name));
        found.error(factor.key.span, format!("factors.{}", factor.key.name), message);
        sound = false;
    }
    check_independent(entries, found);
    let factor = |entry: &Entry| Factor {
        name: entry.key.name.clone(),
        levels: entry.node.entries().iter().map(|level| level.key.name.clone()).collect(),
    };
    let mut design =
        FactorialDesign { factors: entries.iter().map(factor).collect(), ..FactorialDesign::default() };
    let combinations = if sound { combinations(root, &mut design, found) } else { None };
    let mut levels: Vec<&String> = design.factors.iter().flat_map(|factor| &factor.levels).collect();
    levels.sort_unstable();
    let distinct = levels.windows(2).all(|pair| pair[0] != pair[1]);
    let mut variants = Vec::new();
    for chosen in combinations.unwrap_or_default() {
        let parts: Vec<(&str, &Entry)> = entries
            .iter()
            .zip(chosen)
            .filter_map(|(factor, level)| Some((factor.key.name.as_str(), factor.node.entries().get(level)?)))
            .collect();
        let name = |(factor, level): &(&str, &Entry)| {
            if distinct { level.key.name.clone() } else { format!("{factor}-{}", level.key.name) }
        };
        let name = parts.iter().map(name).collect::<Vec<_>>().join("_");
        design.variants.insert(name.clone(), parts.iter().map(|(_, level)| level.key.name.clone()).collect());
        let mut whole = Variant { name, key: "factors".to_owned(), ..Variant::default() };
        for (factor, level) in parts {
            let key = format!("factors.{factor}.{}", level.key.name);
            whole.append(variant::fragment(&level.node, level.key.span, &key, found));
        }
        variants.push(whole);
    }
    Some((variants, design))
}

/// Reports keys that would change which combinations run.
fn check_selection(root: &Node, found: &mut Diagnostics<'_>) {
    if let Some(variants) = root.entry("variants") {
        let error = found.error(variants.key.span, "variants", "both `factors` and `variants` given");
        error.hint("use only one of them");
    }
    for key in ["include", "exclude"] {
        let selectors = root.get(key).map(Node::items).unwrap_or_default().iter();
        for at in selectors.filter_map(|selector| selector.entry("variant")) {
            let message = format!("`{key}` with `variant` would unbalance the design");
            let hint = "select cases or tags, or write `variants` instead of `factors`";
            found.error(at.key.span, format!("{key}.variant"), message).hint(hint);
        }
    }
}

/// Returns the combinations of levels to run, and sets resolution and generators of a fraction.
fn combinations(
    root: &Node,
    design: &mut FactorialDesign,
    found: &mut Diagnostics<'_>,
) -> Option<Vec<Vec<usize>>> {
    let levels: Vec<usize> = design.factors.iter().map(|factor| factor.levels.len()).collect();
    let entry = root.entry("design");
    let resolution = entry.and_then(|entry| entry.node.get("resolution")).map(|node| &node.value);
    let at = entry.or_else(|| root.entry("factors")).map_or(root.span, |entry| entry.key.span);
    let Some(Value::Int(resolution)) = resolution else {
        let all = levels.iter().try_fold(1_usize, |all, count| all.checked_mul(*count));
        if all.is_none_or(|all| all > MAX_VARIANTS) {
            let error = found.error(at, "factors", "too many combinations of levels");
            error.expected(format!("at most {MAX_VARIANTS}"));
            error.hint("run a fraction of them: `design: { resolution: 4 }`");
            return None;
        }
        return Some(full_factorial(&levels));
    };
    if let Some(factor) = design.factors.iter().find(|factor| factor.levels.len() != 2) {
        let message = format!("a fraction needs factors with two levels; {} has more", quoted(&factor.name));
        found.error(at, "design", message).hint("use `design: full`, or drop levels");
        return None;
    }
    let least = u32::try_from(*resolution).ok()?;
    let Some(fraction) = fractional_factorial(levels.len(), least) else {
        let message = format!("no fraction of {} factors has resolution {least}", levels.len());
        found.error(at, "design", message).hint("use `design: full`, or a lower resolution");
        return None;
    };
    design.resolution = Some(fraction.resolution);
    design.generators = fraction.generators;
    Some(fraction.combinations)
}

/// Reports keys that two factors set: the effect of one would depend on the order of the factors.
fn check_independent(factors: &[Entry], found: &mut Diagnostics<'_>) {
    let mut set_by: BTreeMap<String, &str> = BTreeMap::new();
    for factor in factors {
        for level in factor.node.entries() {
            for (path, entry) in keys(&level.node) {
                let first = *set_by.entry(path.clone()).or_insert(&factor.key.name);
                if first != factor.key.name {
                    let both = format!("{} and {}", quoted(first), quoted(&factor.key.name));
                    let key = format!("factors.{}.{}.{path}", factor.key.name, level.key.name);
                    found
                        .error(entry.key.span, key, format!("factors {both} both set {}", quoted(&path)))
                        .hint("their effects could not be told apart; make it part of one factor");
                }
            }
        }
    }
}

/// Returns the keys that a level sets, down to those that are merged one by one.
fn keys(level: &Node) -> Vec<(String, &Entry)> {
    let mut all = Vec::new();
    for entry in level.entries() {
        let name = match entry.key.name.as_str() {
            "environment" => "env",
            other => other,
        };
        match (name, &entry.node.value) {
            ("config" | "env" | "files", Value::Map(below)) => {
                all.extend(below.iter().map(|one| (format!("{name}.{}", one.key.name), one)));
            }
            // Lists are joined, and of the others the strictest applies.
            ("env" | "remove" | "isolation" | "network" | "limits", _) => {}
            _ => all.push((name.to_owned(), entry)),
        }
    }
    all
}
