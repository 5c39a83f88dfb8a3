//! `yb config`: lists settings with their sources and edits them.

mod template;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use yb_engine::config::edit::{self, EditError};
use yb_engine::config::{self, ConfigSource, FILE_NAMES, KeyError, Settings, ValueError};
use yb_engine::diagnostic::Diagnostic;
use yb_figures::{pad_end, width};

use crate::args::{
    ConfigCommand, ConfigGetArgs, ConfigInitArgs, ConfigListArgs, ConfigSetArgs, ConfigUnsetArgs,
};
use crate::diagnostics::render;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::files;
use crate::printer::Printer;

pub(super) fn run(command: &ConfigCommand, printer: &mut Printer) -> Result<ExitCode, CliError> {
    match command {
        ConfigCommand::Init(args) => init(args, printer),
        ConfigCommand::List(args) => list(args, printer),
        ConfigCommand::Get(args) => get(args, printer),
        ConfigCommand::Set(args) => set(args, printer),
        ConfigCommand::Unset(args) => unset(args, printer),
    }
}

fn init(args: &ConfigInitArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let directory = directory(args.scope.global)?;
    let name = FILE_NAMES[0];
    let there: Vec<&str> =
        FILE_NAMES.iter().copied().filter(|name| files::exists(&directory.join(name))).collect();
    match there.first() {
        Some(first) if *first == name && !args.force => {
            return Err(CliError::new(
                ErrorKind::Usage,
                format!("file exists: `{}`", directory.join(name).display()),
            )
            .hint("pass `--force` to replace it"));
        }
        Some(other) if *other != name => {
            return Err(CliError::new(
                ErrorKind::Usage,
                format!("the new file would hide an existing one: `{}`", directory.join(other).display()),
            )
            .hint("edit it with `yb config set`, or remove it first"));
        }
        _ => {}
    }
    files::write(&directory, Path::new(name), &template::text())?;
    printer.line(format_args!("wrote {}", directory.join(name).display()));
    Ok(ExitCode::Passed)
}

/// A listed setting.
struct SettingRow {
    key: String,
    value: Option<Value>,
    source: Option<ConfigSource>,
}

fn list(args: &ConfigListArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let (rows, found) = rows(args.global)?;
    show(&found, printer);
    if args.json {
        let rows: Vec<Value> = rows
            .iter()
            .map(|row| {
                let (source, from) = row.source.as_ref().map_or(("unset", None), describe);
                json!({ "key": row.key, "value": row.value, "source": source, "from": from })
            })
            .collect();
        printer.pretty_json(&Value::Array(rows));
    } else {
        let value = |row: &SettingRow| row.value.as_ref().map_or_else(|| "-".to_owned(), plain);
        let columns =
            |of: &dyn Fn(&SettingRow) -> String| rows.iter().map(|row| width(&of(row))).max().unwrap_or(0);
        let (keys, values) = (columns(&|row| row.key.clone()), columns(&value));
        for row in &rows {
            let source = row.source.as_ref().map_or_else(|| "not set".to_owned(), ToString::to_string);
            let (key, value) = (pad_end(&row.key, keys), pad_end(&value(row), values));
            printer.line(format_args!("{key}  {value}  {source}"));
        }
    }
    Ok(code(&found))
}

fn get(args: &ConfigGetArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let group = match config::check_key(&args.key) {
        Ok(()) => false,
        Err(KeyError::Group { .. }) => true,
        Err(error) => return Err(error.into()),
    };
    let (rows, found) = rows(args.global)?;
    show(&found, printer);
    let below = format!("{}.", args.key);
    let mut any = false;
    for row in rows.iter().filter(|row| row.key == args.key || row.key.starts_with(&below)) {
        let Some(value) = &row.value else { continue };
        any = true;
        if group {
            printer.line(format_args!("{}: {}", row.key, plain(value)));
        } else {
            printer.line(plain(value));
        }
    }
    if !any {
        return Err(CliError::new(ErrorKind::Failed, format!("not set: `{}`", args.key)));
    }
    Ok(code(&found))
}

fn set(args: &ConfigSetArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let value = config::value_from_text(&args.key, &args.value)?;
    let (directory, file) = file(args.scope.global)?;
    let text = text_of(&file)?;
    let edited = match edit::set(&file, &text, &args.key, &value) {
        Ok(edited) => edited,
        Err(error) => return refuse(error, &args.key, &file, printer),
    };
    save(&directory, &file, &edited)?;
    printer.line(format_args!("set {} to {} in {}", args.key, plain(&value), file.display()));
    let (_, found) = config::read_file(&file);
    show(&found, printer);
    if let Some(source) = overriding_source(&args.key, &file)? {
        printer.note(format_args!("warning: overridden by {source}"));
    }
    Ok(code(&found))
}

fn unset(args: &ConfigUnsetArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let (directory, file) = file(args.scope.global)?;
    let text = text_of(&file)?;
    match edit::unset(&file, &text, &args.key) {
        Ok(Some(edited)) => {
            save(&directory, &file, &edited)?;
            printer.line(format_args!("removed {} from {}", args.key, file.display()));
            Ok(ExitCode::Passed)
        }
        Ok(None) => {
            // An unknown key may be removed, but a typo must be reported.
            if let Err(error @ (KeyError::Unknown { .. } | KeyError::BadVariable { .. })) =
                config::check_key(&args.key)
            {
                return Err(error.into());
            }
            Err(CliError::new(ErrorKind::Failed, format!("not set in `{}`: `{}`", file.display(), args.key)))
        }
        Err(error) => refuse(error, &args.key, &file, printer),
    }
}

/// Lists all keys and variables with their effective values, or only those of the global file.
fn rows(global: bool) -> Result<(Vec<SettingRow>, Vec<Diagnostic>), CliError> {
    if global {
        let Some(file) = config::file_in(&home()?) else { return Ok((Vec::new(), Vec::new())) };
        let (values, found) = config::read_file(&file);
        let row = |(key, value)| SettingRow {
            key,
            value: Some(value),
            source: Some(ConfigSource::User(file.clone())),
        };
        return Ok((values.into_iter().map(row).collect(), found));
    }
    let (settings, found) = Settings::load(std::env::home_dir().as_deref(), &here()?);
    let known = config::known_keys().into_iter().map(|key| {
        let setting = settings.get(&key.name);
        SettingRow {
            value: setting.map(|setting| setting.value.clone()),
            source: setting.map(|setting| setting.source.clone()),
            key: key.name,
        }
    });
    let mut rows: Vec<SettingRow> = known.collect();
    rows.extend(settings.iter().filter(|(key, _)| key.starts_with("variables.")).map(|(key, setting)| {
        SettingRow {
            key: key.to_owned(),
            value: Some(setting.value.clone()),
            source: Some(setting.source.clone()),
        }
    }));
    Ok((rows, found))
}

fn describe(source: &ConfigSource) -> (&'static str, Option<String>) {
    let path = |path: &PathBuf| Some(path.display().to_string());
    match source {
        ConfigSource::Default => ("default", None),
        ConfigSource::User(file) => ("user", path(file)),
        ConfigSource::Project(file) => ("project", path(file)),
        ConfigSource::Environment(name) => ("environment", Some(name.clone())),
        _ => ("other", None),
    }
}

/// Returns the source that overrides the value in a file.
fn overriding_source(key: &str, file: &Path) -> Result<Option<ConfigSource>, CliError> {
    let (settings, _) = Settings::load(std::env::home_dir().as_deref(), &here()?);
    Ok(settings.source_of(key).cloned().filter(|source| match source {
        ConfigSource::User(other) | ConfigSource::Project(other) => other != file,
        ConfigSource::Default => false,
        _ => true,
    }))
}

fn refuse(error: EditError, key: &str, file: &Path, printer: &mut Printer) -> Result<ExitCode, CliError> {
    if let EditError::Unreadable(found) = &error {
        show(found, printer);
    }
    Err(CliError::new(ErrorKind::Usage, format!("failed to change `{key}` in `{}`", file.display()))
        .caused_by(error)
        .hint("edit the file by hand; nothing was changed"))
}

fn show(found: &[Diagnostic], printer: &mut Printer) {
    for finding in found {
        printer.note(render(finding, finding.severity));
        printer.note("");
    }
}

fn code(found: &[Diagnostic]) -> ExitCode {
    if found.iter().any(Diagnostic::is_error) { ExitCode::Usage } else { ExitCode::Passed }
}

/// Formats a string without quotes, anything else as JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the directory and the existing file, or the one to create.
fn file(global: bool) -> Result<(PathBuf, PathBuf), CliError> {
    let directory = directory(global)?;
    let file = config::file_in(&directory).unwrap_or_else(|| directory.join(FILE_NAMES[0]));
    Ok((directory, file))
}

fn directory(global: bool) -> Result<PathBuf, CliError> {
    if global { home() } else { here() }
}

fn home() -> Result<PathBuf, CliError> {
    std::env::home_dir().filter(|home| home.is_dir()).ok_or_else(|| {
        CliError::new(ErrorKind::Usage, "no home directory").hint("set `HOME` or omit `--global`")
    })
}

fn here() -> Result<PathBuf, CliError> {
    std::env::current_dir().map_err(|error| {
        CliError::new(ErrorKind::Usage, "failed to find the working directory").caused_by(error)
    })
}

fn text_of(file: &Path) -> Result<String, CliError> {
    let failed = |error: std::io::Error| {
        CliError::new(ErrorKind::Usage, format!("failed to read `{}`", file.display())).caused_by(error)
    };
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(failed(error)),
    }
}

fn save(directory: &Path, file: &Path, text: &str) -> Result<(), CliError> {
    files::write(directory, Path::new(file.file_name().unwrap_or_default()), text)
}

impl From<KeyError> for CliError {
    fn from(error: KeyError) -> Self {
        let hint = error.hint();
        Self::new(ErrorKind::Usage, error.to_string()).hint(hint)
    }
}

impl From<ValueError> for CliError {
    fn from(error: ValueError) -> Self {
        match error {
            ValueError::Key(error) => error.into(),
            ValueError::Value(found) => {
                let Some(first) = found.into_iter().next() else {
                    return Self::new(ErrorKind::Usage, "invalid value");
                };
                let error = Self::new(ErrorKind::Usage, format!("`{}`: {}", first.key, first.message));
                let expected = first.expected.map(|expected| format!("expected {expected}"));
                expected.into_iter().chain(first.hint).fold(error, Self::hint)
            }
        }
    }
}
