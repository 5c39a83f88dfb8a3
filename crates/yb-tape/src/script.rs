//! The model of a script: lanes, replies and faults. `reader` parses it.

mod fault;
mod reader;
mod units;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

pub(crate) use self::fault::{Fault, FaultKind, FaultPosition};
use crate::error::Error;
use crate::vars::Vars;
use crate::yaml;

/// The default lane, for requests that no other lane matches.
pub(crate) const MAIN: &str = "main";

/// A script for a mock model: its replies, turn by turn, for each conversation.
///
/// ```
/// use yb_tape::{Script, Vars};
///
/// let text = "
/// tape: 1
/// lanes:
///   main:
///     - say: I will write the file.
///       tools:
///         - Write: { file_path: '{{workspace}}/hello.txt', content: hi }
///     - say: Done.
/// ";
/// let script = Script::parse(text, &Vars::new().with("workspace", "/tmp/w"))?;
/// assert_eq!(script.lanes().collect::<Vec<_>>(), [("main", 2)]);
/// # Ok::<(), yb_tape::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    pub(crate) model: Option<String>,
    pub(crate) lanes: Vec<ScriptLane>,
}

impl Script {
    /// Parses a script from a string; error locations use the file name `script`.
    ///
    /// # Errors
    /// When the script is invalid.
    pub fn parse(text: &str, vars: &Vars) -> Result<Self, Error> {
        Ok(reader::read_script(text, "script", vars)?)
    }

    /// Loads a script from a file of at most 1 MiB.
    ///
    /// # Errors
    /// When the file can't be read or the script is invalid.
    pub fn load(path: impl AsRef<Path>, vars: &Vars) -> Result<Self, Error> {
        let path = path.as_ref();
        let failed = |source| Error::ReadScript { path: path.to_owned(), source };
        let mut text = String::new();
        // One byte over the limit suffices to detect a file that is too large.
        let limit = u64::try_from(yaml::MAX_BYTES).unwrap_or(u64::MAX).saturating_add(1);
        File::open(path).and_then(|file| file.take(limit).read_to_string(&mut text)).map_err(failed)?;
        Ok(reader::read_script(&text, &path.display().to_string(), vars)?)
    }

    /// Returns the names of the lanes in script order, each with its number of replies.
    pub fn lanes(&self) -> impl Iterator<Item = (&str, usize)> {
        self.lanes.iter().map(|lane| (lane.name.as_str(), lane.replies.len()))
    }
}

/// A scripted conversation: the main thread or a subagent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScriptLane {
    pub(crate) name: String,
    /// Absent only for `main`, which is then the default lane.
    pub(crate) matcher: Option<LaneMatcher>,
    pub(crate) replies: Vec<Arc<Reply>>,
}

/// Selects the conversations of a lane; at least one of the fields is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LaneMatcher {
    /// Substring of the user messages before the first model response, without reminders.
    pub(crate) prompt: Option<String>,
    /// Substring of the system prompt.
    pub(crate) system: Option<String>,
}

/// One response of the mock model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reply {
    pub(crate) blocks: Vec<Block>,
    pub(crate) stop: &'static str,
    pub(crate) usage: ScriptedUsage,
    pub(crate) pacing: StreamPacing,
    pub(crate) fault: Option<Fault>,
}

/// One content block of a reply.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Block {
    Text(String),
    Thinking(String),
    Tool { name: String, input: Map<String, Value> },
}

/// The token usage that a reply reports. The defaults are small, recognizable placeholders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScriptedUsage {
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) cache_read: u64,
    pub(crate) cache_write: u64,
    /// The part of `cache_write` with a lifetime of one hour.
    pub(crate) cache_write_1h: u64,
}

impl ScriptedUsage {
    /// Returns all input tokens, cached or not.
    pub(crate) fn total_input(self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }
}

impl Default for ScriptedUsage {
    fn default() -> Self {
        Self { input: 10, output: 5, cache_read: 0, cache_write: 0, cache_write_1h: 0 }
    }
}

/// Delays and chunk size of a streamed reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamPacing {
    /// Delay before the first byte.
    pub(crate) delay: Duration,
    /// Pause between two events.
    pub(crate) between: Duration,
    /// Characters per delta, at least 1.
    pub(crate) chunk: usize,
}

impl Default for StreamPacing {
    fn default() -> Self {
        Self { delay: Duration::ZERO, between: Duration::ZERO, chunk: 1024 }
    }
}
