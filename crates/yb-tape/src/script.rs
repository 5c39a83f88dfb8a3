//! What a script says: lanes, their replies and the faults between them; the reading of it is in `reader`.

mod fault;
mod reader;
mod units;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

pub(crate) use self::fault::{Fault, FaultKind, Point};
use crate::error::Error;
use crate::vars::Vars;
use crate::yaml;

/// The name of the lane for everything that no other lane claims.
pub(crate) const MAIN: &str = "main";

/// A scripted model: what it answers, turn by turn, in each conversation.
///
/// ```
/// use yb_tape::{Script, Vars};
///
/// let text = "
/// tape: 1
/// lanes:
///   main:
///     - say: I write the file.
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
    pub(crate) lanes: Vec<Lane>,
}

impl Script {
    /// Parses a script from a text; errors call the text `script`.
    pub fn parse(text: &str, vars: &Vars) -> Result<Self, Error> {
        Ok(reader::read(text, "script", vars)?)
    }

    /// Loads a script from a file of at most 1 MiB.
    pub fn load(path: impl AsRef<Path>, vars: &Vars) -> Result<Self, Error> {
        let path = path.as_ref();
        let failed = |source| Error::Read { path: path.to_owned(), source };
        let mut text = String::new();
        // One byte over the limit is enough to know that it is too large, whatever the file is.
        let limit = u64::try_from(yaml::MAX_BYTES).unwrap_or(u64::MAX).saturating_add(1);
        File::open(path).and_then(|file| file.take(limit).read_to_string(&mut text)).map_err(failed)?;
        Ok(reader::read(&text, &path.display().to_string(), vars)?)
    }

    /// The lanes in the order of the script, each with the number of its replies.
    pub fn lanes(&self) -> impl Iterator<Item = (&str, usize)> {
        self.lanes.iter().map(|lane| (lane.name.as_str(), lane.replies.len()))
    }
}

/// One conversation: the main thread, or one subagent.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Lane {
    pub(crate) name: String,
    /// Absent only for `main`, which then takes what is left.
    pub(crate) matcher: Option<Match>,
    pub(crate) replies: Vec<Arc<Reply>>,
}

/// What a conversation must contain to belong to a lane; at least one of the two is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Match {
    /// Part of what the user says before the model first answers, reminders left out.
    pub(crate) prompt: Option<String>,
    /// Part of the system prompt.
    pub(crate) system: Option<String>,
}

/// One answer of the model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reply {
    pub(crate) blocks: Vec<Block>,
    pub(crate) stop: &'static str,
    pub(crate) usage: Usage,
    pub(crate) pace: Pace,
    pub(crate) fault: Option<Fault>,
}

/// One content block of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Block {
    Text(String),
    Thinking(String),
    Tool { name: String, input: Map<String, Value> },
}

/// The tokens that an answer claims. The defaults are placeholders, small enough to be recognised as such.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) cache_read: u64,
    pub(crate) cache_write: u64,
    /// As much of `cache_write` as is to be kept for an hour.
    pub(crate) cache_write_1h: u64,
}

impl Usage {
    /// What was read, whether or not from a cache.
    pub(crate) fn all_input(self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }
}

impl Default for Usage {
    fn default() -> Self {
        Self { input: 10, output: 5, cache_read: 0, cache_write: 0, cache_write_1h: 0 }
    }
}

/// How fast an answer comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pace {
    /// Before the first byte.
    pub(crate) delay: Duration,
    /// Between two events.
    pub(crate) between: Duration,
    /// Characters in one delta, at least 1.
    pub(crate) chunk: usize,
}

impl Default for Pace {
    fn default() -> Self {
        Self { delay: Duration::ZERO, between: Duration::ZERO, chunk: 1024 }
    }
}
