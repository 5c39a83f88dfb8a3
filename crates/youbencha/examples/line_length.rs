//! `yb` with one more evaluator: `line-length` limits the length of lines. This file is all that an evaluator needs.

use std::sync::Arc;

use async_trait::async_trait;
use yb_engine::case::shape::{Field, GLOBS, Kind, Object};
use yb_engine::case::{ConfigReader, EvaluatorConfig, EvaluatorInput, EvaluatorSpec};
use yb_engine::evaluate::{
    Assertion, Evaluator, EvaluatorContext, GradeError, Subject, Verdict, into_config,
};
use yb_engine::repo::{PathGlobs, TreeFile};
use youbencha::Extensions;

fn main() -> std::process::ExitCode {
    youbencha::run_with(&Extensions::builtin().with_evaluator(&SPEC))
}

static SPEC: EvaluatorSpec = EvaluatorSpec {
    name: "line-length",
    summary: "the longest line of each file, against a limit",
    input: EvaluatorInput::Objects,
    config: &CONFIG,
    read,
};

static CONFIG: Object = Object {
    name: "lineLength",
    fields: &[
        Field::new("max", Kind::Whole { min: 1, max: 10_000 }, "The maximum length in bytes.").required(),
        Field::new("include", GLOBS, "Globs of the files to check; all by default."),
    ],
};

#[derive(Debug)]
struct LineLength {
    max: usize,
    include: Vec<String>,
}

fn read(reader: &mut ConfigReader<'_, '_>) -> Option<Arc<dyn EvaluatorConfig>> {
    let max = usize::try_from(reader.count("max")?).ok()?;
    Some(into_config(LineLength { max, include: reader.texts("include") }))
}

#[async_trait]
impl Evaluator for LineLength {
    async fn evaluate(&self, subject: &Subject, _context: &EvaluatorContext) -> Result<Verdict, GradeError> {
        let include = PathGlobs::new(&self.include)?;
        let files = subject.files().await?.iter();
        let files: Vec<&TreeFile> =
            files.filter(|file| include.is_empty() || include.matches(&file.path)).collect();
        let contents = subject.store.contents(&files).await?;
        let checks: Vec<Assertion> = files
            .iter()
            .zip(contents)
            .map(|(file, content)| {
                let longest = content.split(|byte| *byte == b'\n').map(<[u8]>::len).max().unwrap_or(0);
                let path = file.display_path();
                Assertion::new(format!("max: {path}"), longest <= self.max)
                    .with_values(longest, self.max)
                    .with_message(|| format!("`{path}` has a line of {longest} bytes"))
            })
            .collect();
        let summary = format!("{} files checked", checks.len());
        Ok(Verdict::from_checks(checks).with_summary(&summary))
    }
}
