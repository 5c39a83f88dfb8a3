//! The examples at the end of each command's help. Each was run.

pub(super) const INIT: &str = "\
Examples:
  yb init                          write testcase.yaml and testcase-project/
  yb init && yb run -c testcase.yaml
  yb init --force                  write them again, over what is there";

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
  yb config get variables          all variables";

pub(super) const CONFIG_SET: &str = "\
Examples:
  yb config set agent.model sonnet
  yb config set variables.BASE https://github.com/example
  yb config set --global timeout_ms 600000";

pub(super) const CONFIG_UNSET: &str = "\
Examples:
  yb config unset agent.model
  yb config unset --global timeout_ms";

pub(super) const DOCTOR: &str = "\
Examples:
  yb doctor
  yb doctor --json";

pub(super) const LIST: &str = "\
Examples:
  yb list
  yb list agents
  yb list evaluators --json";

pub(super) const COMPLETIONS: &str = "\
Examples:
  yb completions bash > ~/.local/share/bash-completion/completions/yb
  yb completions zsh > ~/.zfunc/_yb
  yb completions fish > ~/.config/fish/completions/yb.fish";

pub(super) const INSTALL_AGENTS: &str = "\
Examples:
  yb install-agents
  yb install-agents --force        replace what is there";

pub(super) const MAN: &str = "\
Examples:
  yb man | man -l -
  yb man --dir ./man";
