//! Examples in the help of each command.

pub(super) const ASK: &str = "\
Examples:
  yb ask \"What does this repository do?\"
  git diff | yb ask --json
  yb ask --otel-file trace.jsonl \"What does this repository do?\"
  yb ask --allowed-tools Bash,Edit --max-budget-usd 0.50 \"Make the tests pass\"";

pub(super) const DEMO: &str = "\
Examples:
  yb demo
  yb demo --no-download
  yb demo --agents-dir ./agents --dir ./demo";

pub(super) const IMPORT: &str = "\
Examples:
  yb import ./my-plugin
  yb import promptfooconfig.yaml --agent codex --out suites/greetings";

pub(super) const SCHEMA: &str = "\
Examples:
  yb schema > case.schema.json
  yb schema eval > eval.schema.json";

pub(super) const TAPE: &str = "\
Examples:
  yb tape serve model.yaml
  yb tape record -- claude -p \"What does this repository do?\"
  yb tape show recorded.tape";

pub(super) const TAPE_DIFF: &str = "\
Examples:
  yb tape diff before.tape after.tape";

pub(super) const TAPE_RECORD: &str = "\
Examples:
  yb tape record -- claude -p \"What does this repository do?\"
  yb tape record --output one.tape --upstream http://127.0.0.1:8080 -- ./my-agent";

pub(super) const TAPE_REDACT: &str = "\
Examples:
  yb tape redact recorded.tape --output clean.tape --secret DEPLOY_TOKEN";

pub(super) const TAPE_SHOW: &str = "\
Examples:
  yb tape show recorded.tape
  yb tape show recorded.tape --lane main --full
  yb tape show recorded.tape --json | jq .exchanges";

pub(super) const TAPE_VERIFY: &str = "\
Examples:
  yb tape verify recorded.tape";

pub(super) const TAPE_SERVE: &str = "\
Examples:
  yb tape serve model.yaml
  yb tape serve model.yaml --port 8080 --var workspace=/tmp/repo";

pub(super) const VALIDATE: &str = "\
Examples:
  yb validate testcase.yaml
  yb validate --strict cases/a.yaml cases/b.yaml
  yb validate -v testcase.yaml";

pub(super) const CHECK: &str = "\
Examples:
  yb check testcase.yaml                        prove a case before running it
  yb check suite.yaml --repeat 10               look for flaky evaluators
  yb check suite.yaml --judges                  include judges, which cost money";

pub(super) const CONFIG: &str = "\
Examples:
  yb config list
  yb config set agent.model sonnet";

pub(super) const EVAL: &str = "\
Examples:
  yb eval eval.yaml                             grade the directory named in the file
  yb eval --from latest                         re-grade a run with the current case files
  yb eval --from latest evaluators.yaml         use other evaluators
  yb eval --from latest --failed-only           only trials that failed or could not be graded
  yb eval --from latest --json | jq -r .grading";

pub(super) const INIT: &str = "\
Examples:
  yb init                          write testcase.yaml and testcase-project/
  yb init && yb run testcase.yaml
  yb init --force                  overwrite them";

pub(super) const CONFIG_INIT: &str = "\
Examples:
  yb config init                   write .youbencharc here
  yb config init --global          write ~/.youbencharc";

pub(super) const CONFIG_LIST: &str = "\
Examples:
  yb config list
  yb config list --json
  YB_TIMEOUT_MS=60000 yb config list";

pub(super) const CONFIG_GET: &str = "\
Examples:
  yb config get workspace_dir
  yb config get variables          print all variables";

pub(super) const CONFIG_SET: &str = "\
Examples:
  yb config set agent.model sonnet
  yb config set variables.BASE https://github.com/example
  yb config set --global timeout_ms 600000";

pub(super) const CONFIG_UNSET: &str = "\
Examples:
  yb config unset agent.model
  yb config unset --global timeout_ms";

pub(super) const SELF: &str = "\
Examples:
  yb self doctor";

pub(super) const SELF_DOCTOR: &str = "\
Examples:
  yb self doctor
  yb self doctor --json | jq -r .update";

pub(super) const DOCTOR: &str = "\
Examples:
  yb doctor
  yb doctor --json";

pub(super) const LIST: &str = "\
Examples:
  yb list
  yb list agents
  yb list evaluators --json
  yb list runs
  yb list runs --json | jq -r '.runs[] | select(.state == \"died\").run'";

pub(super) const COMPLETIONS: &str = "\
Examples:
  yb completions bash > ~/.local/share/bash-completion/completions/yb
  yb completions zsh > ~/.zfunc/_yb
  yb completions fish > ~/.config/fish/completions/yb.fish";

pub(super) const INSTALL_AGENTS: &str = "\
Examples:
  yb install-agents
  yb install-agents --force        overwrite existing files
  yb install-agents --cli codex@0.166.0 --cli claude-code@2.1.325";

pub(super) const MAN: &str = "\
Examples:
  yb man | man -l -
  yb man --dir ./man";

pub(super) const SUGGEST: &str = "\
Examples:
  yb suggest-testcase --agent claude-code --output-dir ./out
  yb suggest-testcase --agent claude-code --output-dir ./out --save cases/new.yaml
  yb suggest-testcase --agent command --output-dir ./out -- ./my-agent {prompt_file}";

pub(super) const PROMPT: &str = "\
Examples:
  yb prompt render greet.prompt.mdx
  yb prompt run greet.prompt.mdx
  yb prompt test greet.prompt.mdx";

pub(super) const PROMPT_RENDER: &str = "\
Examples:
  yb prompt render greet.prompt.mdx                        use the props of `test_settings`
  yb prompt render greet.prompt.mdx --props-file props.json
  yb prompt render greet.prompt.mdx --json | jq .query.options";

pub(super) const PROMPT_RUN: &str = "\
Examples:
  yb prompt run greet.prompt.mdx
  yb prompt run greet.prompt.mdx --props-file props.json --max-budget-usd 0.50
  yb prompt run review.prompt.mdx --allowed-tools Read,Grep --preset
  yb prompt run verdict.prompt.mdx | jq .score";

pub(super) const PROMPT_TEST: &str = "\
Examples:
  yb prompt test greet.prompt.mdx                          run every row once
  yb prompt test greet.prompt.mdx --repeat 5 --gate min_pass_rate=0.9
  yb prompt test greet.prompt.mdx --dataset hard.jsonl --dry-run
  yb prompt test greet.prompt.mdx --json | jq -r 'select(.event == \"summary\").passed'";

pub(super) const EXPORT: &str = "\
Examples:
  yb export --format atif                     newest run, next to its results
  yb export nightly --format inspect -o logs  then: inspect view --log-dir logs
  yb export nightly --format harbor -o jobs   then: harbor view jobs
  yb export --format parquet -o frames        then: duckdb -c \"from 'frames/trials.parquet'\"
  yb export --format swebench -o predictions";

pub(super) const REPORT: &str = "\
Examples:
  yb report                                   newest run as Markdown, next to its results
  yb report --format html                     as an HTML page
  yb report --from run-2026 --format junit --output junit.xml
  yb report --format github --output - | gh pr comment --body-file -
  yb report --from out/results.json           single trial, also of the original youBencha";

pub(super) const RUN: &str = "\
Examples:
  yb run case.yaml                              run a case once
  yb run suite.yaml --repeat 3 --jobs 4         run every case and variant three times
  yb run suite.yaml -f 'fix-*' -f variant=good
  yb run suite.yaml --dry-run --max-cost 5      print the plan and estimated cost
  yb run suite.yaml --record tapes              record model API traffic
  yb run suite.yaml --replay tapes              replay without API calls
  yb run suite.yaml --replay tapes --fault 2:529
  yb run suite.yaml --replay tapes --fork 3 --model claude-opus-5-5
  yb run --resume                               resume the newest unfinished run
  yb run --rerun failed latest                  rerun failed trials in a new run
  yb run case.yaml --otel-file trace.jsonl      write a trace
  yb run suite.yaml --json | jq -r 'select(.event == \"summary\").passed'";

pub(super) const CLEAN: &str = "\
Examples:
  yb clean                          list all finished runs
  yb clean --keep 5 --yes           keep the newest five
  yb clean --older-than 7d --yes    keep those of the last week
  yb clean latest --yes             remove one run, even if unfinished
  yb clean --cache --yes            remove cached repositories only";

pub(super) const SHOW: &str = "\
Examples:
  yb show                              newest run
  yb show latest two--bad--1           one of its trials
  yb show two--bad--1 --transcript     a trial of the newest run
  yb show latest --json
  yb show latest --grading latest      newest grading of `yb eval --from`
  yb show two--bad--1 --diff --raw | git apply
  yb show two--bad--1 --command | sh";

pub(super) const VERIFY: &str = "\
Examples:
  yb verify                                     newest run
  yb verify latest --json | jq -r .problems
  yb verify latest --sign ~/.ssh/id_ed25519     writes record.txt and record.txt.sig
  yb verify latest --verify-with id_ed25519.pub";

pub(super) const COMPARE: &str = "\
Examples:
  yb compare main                               newest run with the baseline `main`
  yb compare latest                             newest run with the one before (`latest~1`)
  yb compare run-2026-11-14 latest~2            two runs
  yb compare latest --variant old=new           two variants of one run
  yb compare main --estimand new-cases --tolerance 0.02
  yb compare main --json | jq -r .reason";

pub(super) const GATE: &str = "\
Examples:
  yb gate                                       newest run with its own gates
  yb gate latest --gate min_pass_rate=0.9
  yb gate latest --gate no_regression=main --gate no_regression.tolerance=0.1
  yb gate latest -c suite.yaml --json";

pub(super) const BASELINE: &str = "\
Examples:
  yb baseline set main latest
  yb baseline list
  yb baseline remove main";

pub(super) const BASELINE_SET: &str = "\
Examples:
  yb baseline set main                          newest run
  yb baseline set v1.2 run-2026-11-14";

pub(super) const BASELINE_LIST: &str = "\
Examples:
  yb baseline list
  yb baseline list --json";

pub(super) const BASELINE_REMOVE: &str = "\
Examples:
  yb baseline remove main";

pub(super) const DIFF: &str = "\
Examples:
  yb diff greeting--a--1 greeting--b--1         two trials of the newest run
  yb diff latest/greeting--a--1 run-2026-11-14/greeting--a--1
  yb diff greeting--a--1 greeting--b--1 --stat";

pub(super) const OPEN: &str = "\
Examples:
  yb open                                       report of the newest run
  yb open greeting--a--1                        workspace of one of its trials
  yb open latest --print";

pub(super) const VIEW: &str = "\
Examples:
  yb view                                       list of all runs
  yb view latest                                newest run
  yb view --port 8080 --no-open                 through an SSH tunnel, for example";

pub(super) const TREND: &str = "\
Examples:
  yb trend nightly
  yb trend suite.yaml --variant opus
  yb trend nightly --json";

pub(super) const INDEX: &str = "\
Examples:
  yb index rebuild
  yb index query \"select run, passed, done from runs\"";

pub(super) const INDEX_REBUILD: &str = "\
Examples:
  yb index rebuild";

pub(super) const INDEX_QUERY: &str = "\
Examples:
  yb index query \"select run, passed, done, cost_usd from runs order by started_at\"
  yb index query \"select case_name, avg(outcome = 'passed') from trials group by case_name\" --json";

#[cfg(test)]
mod tests {
    use super::super::{command, parse_from};

    /// Collects the visible commands with their paths.
    fn visible(command: &clap::Command, path: &str, found: &mut Vec<(String, clap::Command)>) {
        for below in
            command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
        {
            let path = format!("{path} {}", below.get_name());
            visible(below, &path, found);
            found.push((path, below.clone()));
        }
    }

    fn examples(command: &mut clap::Command) -> Vec<String> {
        let help = command.render_long_help().to_string();
        let Some((_, examples)) = help.split_once("\nExamples:\n") else { return Vec::new() };
        examples.lines().map(|line| line.trim().to_owned()).collect()
    }

    /// Returns the arguments of `yb` in a line, up to a pipe, a redirection or a comment.
    fn arguments(line: &str) -> Option<Vec<String>> {
        let command = &line[line.find("yb ")?..];
        let end = ["  ", " | ", " > ", " && "].iter().filter_map(|end| command.find(end)).min();
        let parts = command[..end.unwrap_or(command.len())].split('"').enumerate();
        let words = parts.flat_map(|(at, part)| {
            if at % 2 == 1 {
                vec![part.to_owned()]
            } else {
                part.split_whitespace().map(str::to_owned).collect()
            }
        });
        Some(words.collect())
    }

    #[test]
    fn every_command_has_valid_examples() {
        let mut commands = Vec::new();
        visible(&command(), "yb", &mut commands);
        assert!(commands.len() > 10);
        for (path, mut command) in commands {
            let examples = examples(&mut command);
            assert!(!examples.is_empty(), "`{path} --help` has no examples");
            for line in examples {
                let arguments = arguments(&line).unwrap_or_else(|| panic!("`{path}`: not a command: {line}"));
                assert!(
                    arguments.join(" ").starts_with(&path),
                    "`{path}`: another command's example: {line}"
                );
                if let Err(error) = parse_from(arguments) {
                    panic!("`{path}`: {line}\n{error}");
                }
            }
        }
    }
}
