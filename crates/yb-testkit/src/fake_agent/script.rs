//! The script format of the fake agent.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::{Map, Value};

use super::content::Content;
use super::signals::SignalName;

/// Default lifetime limit of every process of a script.
const DEFAULT_CAP_S: u64 = 120;

/// A script: its steps, and the lifetime limit of its processes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Script {
    #[serde(default = "default_cap")]
    pub(crate) cap_s: u64,
    pub(crate) steps: Steps,
}

fn default_cap() -> u64 {
    DEFAULT_CAP_S
}

impl Script {
    /// Parses a script from YAML: a list of steps, or a mapping with `steps` and `cap_s`.
    pub(crate) fn parse(yaml: &str) -> Result<Self, String> {
        // Otherwise `print: yes` would be a boolean.
        let options = serde_saphyr::options! { strict_booleans: true };
        let value: Value =
            serde_saphyr::from_str_with_options(yaml, options).map_err(|error| error.to_string())?;
        let value = match value {
            Value::Array(steps) => serde_json::json!({ "steps": steps }),
            other => other,
        };
        let script: Self = serde_json::from_value(value).map_err(|error| error.to_string())?;
        script.steps.check_sleeps(script.cap_s)?;
        Ok(script)
    }
}

/// Parsed steps with their raw values: child processes get their steps as JSON.
#[derive(Debug, Default, Clone)]
pub(crate) struct Steps {
    pub(crate) raw: Vec<Value>,
    pub(crate) parsed: Vec<Step>,
}

impl Steps {
    /// Returns the raw steps after `index`.
    pub(crate) fn raw_after(&self, index: usize) -> Vec<Value> {
        self.raw.iter().skip(index + 1).cloned().collect()
    }

    /// Rejects a sleep longer than the lifetime limit: the test would observe SIGALRM instead.
    fn check_sleeps(&self, cap_s: u64) -> Result<(), String> {
        for step in &self.parsed {
            match step {
                Step::SleepMs(ms) if *ms > cap_s * 1000 => {
                    return Err(format!("`sleep_ms: {ms}` is longer than `cap_s: {cap_s}` allows"));
                }
                Step::Child(child) | Step::Daemon(child) => child.steps.check_sleeps(cap_s)?,
                Step::OnSignal(handler) => handler.steps.check_sleeps(cap_s)?,
                _ => {}
            }
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Steps {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Vec::<Value>::deserialize(deserializer)?;
        let parsed = raw
            .iter()
            .enumerate()
            .map(|(index, value)| {
                serde_json::from_value(value.clone())
                    .map_err(|error| D::Error::custom(format!("step {}: {error}", index + 1)))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { raw, parsed })
    }
}

/// A step. The README describes each of them.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Step {
    Print(Print),
    Flood(Flood),
    SleepMs(u64),
    Write(FileWrite),
    Append(FileWrite),
    Delete(String),
    Commit(Commit),
    PidFile(String),
    WaitForFile(WaitForFile),
    Dump(Dump),
    ReadStdin(ReadStdin),
    Expect(Expect),
    Close(Vec<Stream>),
    Ignore(Vec<SignalName>),
    OnSignal(OnSignal),
    Child(Child),
    Daemon(Child),
    Storm(Storm),
    /// Internal: a process of a fork storm.
    Hop(Storm),
    /// Internal: sends SIGCONT to a pid after a delay.
    Wake(Wake),
    ClearEnv,
    Stop,
    WakeMeMs(u64),
    Signal(SendSignal),
    AllocateMib(usize),
    BurnMs(u64),
    Exit(i32),
    Die(SignalName),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stream {
    Stdin,
    #[default]
    Stdout,
    Stderr,
    /// Both outputs, alternating.
    Both,
}

impl Stream {
    /// Returns the selected outputs.
    pub(crate) fn outputs(self) -> &'static [Self] {
        match self {
            Self::Stdin => &[],
            Self::Stdout => &[Self::Stdout],
            Self::Stderr => &[Self::Stderr],
            Self::Both => &[Self::Stdout, Self::Stderr],
        }
    }
}

/// Output bytes, optionally repeated.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Value")]
pub(crate) struct Print {
    pub(crate) content: Content,
    pub(crate) options: PrintOptions,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PrintOptions {
    pub(crate) to: Stream,
    pub(crate) times: Option<u64>,
    pub(crate) every_ms: u64,
}

impl TryFrom<Value> for Print {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match value {
            Value::String(line) => {
                Ok(Self { content: Content::Line(line), options: PrintOptions::default() })
            }
            Value::Object(mut map) => {
                Ok(Self { content: Content::take_from(&mut map)?, options: options_from(map)? })
            }
            other => Err(format!("expected a line or a mapping, found: {other}")),
        }
    }
}

fn options_from<T: serde::de::DeserializeOwned>(map: Map<String, Value>) -> Result<T, String> {
    serde_json::from_value(Value::Object(map)).map_err(|error| error.to_string())
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Flood {
    pub(crate) bytes: u64,
    #[serde(default)]
    pub(crate) to: Stream,
    /// Line length including the newline; `None` for no newlines.
    #[serde(default)]
    pub(crate) line: Option<u64>,
}

/// Bytes to write to a file.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Value")]
pub(crate) struct FileWrite {
    pub(crate) content: Content,
    pub(crate) options: FileOptions,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileOptions {
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) times: Option<u64>,
    #[serde(default)]
    pub(crate) every_ms: u64,
}

impl TryFrom<Value> for FileWrite {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let Value::Object(mut map) = value else {
            return Err(format!("expected a mapping with `path`, found: {value}"));
        };
        Ok(Self { content: Content::take_from(&mut map)?, options: options_from(map)? })
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Commit {
    pub(crate) message: String,
    #[serde(default = "here")]
    pub(crate) dir: String,
}

fn here() -> String {
    ".".to_owned()
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitForFile {
    pub(crate) path: String,
    #[serde(default = "default_timeout_ms")]
    pub(crate) timeout_ms: u64,
}

fn default_timeout_ms() -> u64 {
    10_000
}

/// A dump of the process state as JSON.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Value")]
pub(crate) struct Dump {
    pub(crate) path: String,
    pub(crate) read_stdin: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DumpFields {
    path: String,
    #[serde(default)]
    read_stdin: bool,
}

impl TryFrom<Value> for Dump {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match value {
            Value::String(path) => Ok(Self { path, read_stdin: false }),
            other => {
                let fields: DumpFields = serde_json::from_value(other).map_err(|error| error.to_string())?;
                Ok(Self { path: fields.path, read_stdin: fields.read_stdin })
            }
        }
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ReadStdin {
    /// Stop after this many bytes; `None` reads until EOF.
    pub(crate) bytes: Option<u64>,
    /// Bytes per read.
    pub(crate) chunk: Option<usize>,
    /// Delay between reads.
    pub(crate) every_ms: u64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Expect {
    /// Text that the line must contain.
    pub(crate) contains: Option<String>,
    /// JSON pointers and the values expected there.
    pub(crate) fields: BTreeMap<String, Value>,
    /// Names and JSON pointers of values that later steps use as `{{name}}`.
    pub(crate) capture: BTreeMap<String, String>,
    /// Skip lines that do not match.
    pub(crate) skip_others: bool,
    pub(crate) timeout_ms: Option<u64>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OnSignal {
    pub(crate) signals: Vec<SignalName>,
    #[serde(default)]
    pub(crate) steps: Steps,
    /// The exit code after the steps; `None` continues the main steps.
    #[serde(default)]
    pub(crate) exit: Option<i32>,
}

/// A child process with its own steps.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Child {
    pub(crate) steps: Steps,
    #[serde(default)]
    pub(crate) group: Group,
    #[serde(default)]
    pub(crate) pipes: Pipes,
    #[serde(default)]
    pub(crate) env: ChildEnv,
    #[serde(default)]
    pub(crate) wait: bool,
    #[serde(default = "one")]
    pub(crate) count: u32,
}

fn one() -> u32 {
    1
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Group {
    #[default]
    Same,
    Own,
    Session,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Pipes {
    #[default]
    Hold,
    Close,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ChildEnv {
    #[default]
    Keep,
    Clear,
}

/// A bounded fork storm: `width` chains of processes, each of which starts its successor and exits.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Storm {
    pub(crate) width: u32,
    #[serde(default = "one")]
    pub(crate) generations: u32,
    #[serde(default)]
    pub(crate) every_ms: u64,
    #[serde(default)]
    pub(crate) linger_ms: u64,
    #[serde(default)]
    pub(crate) group: Group,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wake {
    pub(crate) pid: i32,
    pub(crate) after_ms: u64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SendSignal {
    pub(crate) to: Target,
    pub(crate) signal: SignalName,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Target {
    #[serde(rename = "self")]
    Itself,
    Parent,
    Group,
}
