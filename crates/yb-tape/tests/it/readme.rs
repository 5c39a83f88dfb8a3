//! The scripts in the README are valid.

use yb_tape::{Script, Vars};

#[test]
fn readme_scripts_parse() {
    let readme = include_str!("../../README.md");
    let vars = Vars::new().with("workspace", "/w");
    let lanes: Vec<Vec<String>> = readme
        .split("```yaml\n")
        .skip(1)
        .map(|rest| {
            let (text, _) = rest.split_once("```").unwrap();
            let script = Script::parse(text, &vars).unwrap();
            script.lanes().map(|(name, replies)| format!("{name} {replies}")).collect()
        })
        .collect();
    assert_eq!(lanes, [vec!["main 3", "reviewer 1"], vec!["main 2"], vec!["main 5"]]);
}
