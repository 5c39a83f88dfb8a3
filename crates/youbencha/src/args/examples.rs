//! The examples at the end of each command's help. Each was run.

pub(super) const INIT: &str = "\
Examples:
  yb init                          write testcase.yaml and testcase-project/
  yb init && yb run -c testcase.yaml
  yb init --force                  write them again, over what is there";
