//! A tape that was recorded: its exchanges, the conversations they form, and what is wrong with it.

mod check;
mod redact;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use serde_json::Value;

pub use self::check::{Difference, Verification};
use crate::error::Error;
use crate::format::record::{self, Head, Line};
use crate::format::{Id, VERSION, frame, reduce, writer};
use crate::matching::dialogue::{self, Api, Dialogue};
use crate::matching::lanes;
use crate::matching::normal::Normal;
use crate::rewrite::Pieces;
use crate::usage::{Observed, TokenUsage};

/// A recorded tape. Clones share what was read.
#[derive(Debug, Clone)]
pub struct Tape(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    head: Head,
    blobs: HashMap<Id, Bytes>,
    exchanges: Vec<Exchange>,
    lanes: Vec<Lane>,
    cut: Option<TapeCut>,
}

/// One request and what came back.
#[derive(Debug, Clone)]
pub struct Exchange {
    pub(crate) record: record::Exchange,
    pub(crate) body: Bytes,
    pub(crate) api: Option<Api>,
    pub(crate) dialogue: Option<Dialogue>,
    pub(crate) lane: Option<usize>,
    pub(crate) turn: usize,
}

/// One conversation of a tape.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lane {
    /// `main`, `subagent-1`, `side-1` and so on, in the order in which they began.
    pub name: String,
    /// The beginning of what opened it.
    pub opening: String,
    /// Its exchanges as indices into [`Tape::exchanges`], in order; a turn that was tried again is there again.
    pub exchanges: Vec<usize>,
}

/// Where a tape ends too early.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TapeCut {
    /// The byte up to which it is whole.
    pub at: u64,
    /// What is wrong there.
    pub reason: String,
}

impl Tape {
    /// Reads a tape. One that was cut is read up to the cut, see [`Tape::cut`].
    ///
    /// # Errors
    /// When the file can't be read, is no tape, or is one of a newer version.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let file = fs::read(path).map_err(|source| Error::ReadTape { path: path.to_owned(), source })?;
        Self::parse(path, &file)
    }

    pub(crate) fn parse(path: &Path, file: &[u8]) -> Result<Self, Error> {
        let no_tape = |reason: String| Error::NoTape { path: path.to_owned(), reason };
        let mut rest = file;
        let mut head = None;
        let mut blobs: HashMap<Id, Bytes> = HashMap::new();
        let mut records = Vec::new();
        let mut cut = None;
        let mut is_finished = false;
        while !rest.is_empty() {
            let at = u64::try_from(file.len() - rest.len()).unwrap_or(u64::MAX);
            let lines = match frame::decode(&mut rest) {
                Ok(lines) => lines,
                Err(error) => {
                    cut = Some(TapeCut { at, reason: error.to_string() });
                    break;
                }
            };
            let mut broken = None;
            for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                match serde_json::from_slice(line) {
                    Ok(Line::Tape(found)) => {
                        if found.version > VERSION {
                            return Err(Error::NewerTape { path: path.to_owned(), version: found.version });
                        }
                        head.get_or_insert(found);
                    }
                    Ok(Line::Blob(blob)) => {
                        if let Some(bytes) = writer::bytes_of(blob.content) {
                            blobs.insert(blob.id, bytes.into());
                        }
                    }
                    Ok(Line::Exchange(exchange)) => records.push(*exchange),
                    Ok(Line::End(_)) => is_finished = true,
                    Ok(Line::Unknown) => {}
                    Err(error) => broken = Some(error.to_string()),
                }
                if head.is_none() {
                    return Err(no_tape("its first line is not a tape's".to_owned()));
                }
            }
            if let Some(reason) = broken {
                cut = Some(TapeCut { at, reason });
                break;
            }
        }
        let Some(head) = head else {
            let reason = cut.map_or_else(|| "it is empty".to_owned(), |cut| cut.reason);
            return Err(no_tape(reason));
        };
        if !is_finished && cut.is_none() {
            let at = u64::try_from(file.len()).unwrap_or(u64::MAX);
            cut = Some(TapeCut { at, reason: "the recording was not finished".to_owned() });
        }
        records.sort_by_key(|exchange: &record::Exchange| exchange.number);
        let normal = Normal::new(&head.places);
        let parsed = parse_blobs(&blobs, &records);
        let mut exchanges: Vec<Exchange> =
            records.into_iter().map(|record| Exchange::new(record, &blobs, &parsed, &normal)).collect();
        let lanes = lanes::assign(&mut exchanges);
        Ok(Self(Arc::new(Inner { path: path.to_owned(), head, blobs, exchanges, lanes, cut })))
    }

    /// Where it was read from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The API that was recorded.
    #[must_use]
    pub fn upstream(&self) -> &str {
        &self.0.head.upstream
    }

    /// When the recording began, in milliseconds since 1970.
    #[must_use]
    pub fn created_ms(&self) -> u64 {
        self.0.head.created_ms
    }

    /// The directories of the recorded run, by what they are.
    #[must_use]
    pub fn places(&self) -> &BTreeMap<String, String> {
        &self.0.head.places
    }

    /// Whether requests were kept whole.
    #[must_use]
    pub fn has_full_requests(&self) -> bool {
        self.0.head.full_requests
    }

    /// The exchanges in the order in which they were asked for.
    #[must_use]
    pub fn exchanges(&self) -> &[Exchange] {
        &self.0.exchanges
    }

    /// The conversations in the order in which they began.
    #[must_use]
    pub fn lanes(&self) -> &[Lane] {
        &self.0.lanes
    }

    /// Where the tape ends too early; nothing when it was finished.
    #[must_use]
    pub fn cut(&self) -> Option<&TapeCut> {
        self.0.cut.as_ref()
    }

    /// The tokens of the recorded run.
    #[must_use]
    pub fn observed(&self) -> Observed {
        let mut observed = Observed::default();
        for exchange in &self.0.exchanges {
            observed.exchanges += 1;
            if let Some(usage) = &exchange.record.usage {
                let model = exchange.record.model.clone().unwrap_or_default();
                observed.models.entry(model).or_default().add(usage);
            }
        }
        observed
    }

    /// The body of a request as far as it was kept; a note stands where only a hash is.
    #[must_use]
    pub fn request_body(&self, exchange: &Exchange) -> Value {
        let get = |id: &Id| parse_blob(self.0.blobs.get(id)?);
        reduce::restore(&exchange.record.request.body, &get)
    }

    /// The lane of an exchange.
    #[must_use]
    pub fn lane_of(&self, exchange: &Exchange) -> Option<&Lane> {
        self.0.lanes.get(exchange.lane?)
    }

    pub(crate) fn head(&self) -> &Head {
        &self.0.head
    }

    pub(crate) fn blobs(&self) -> &HashMap<Id, Bytes> {
        &self.0.blobs
    }
}

fn parse_blob(bytes: &Bytes) -> Option<Value> {
    Some(serde_json::from_slice(bytes).unwrap_or_else(|_| String::from_utf8_lossy(bytes).into()))
}

/// Those blobs that requests are made of: most are in many requests, so each is parsed once.
fn parse_blobs(blobs: &HashMap<Id, Bytes>, records: &[record::Exchange]) -> HashMap<Id, Value> {
    let mut parsed = HashMap::new();
    for id in records.iter().flat_map(|record| reduce::refers_to(&record.request.body)) {
        if !parsed.contains_key(id)
            && let Some(value) = blobs.get(id).and_then(parse_blob)
        {
            parsed.insert(id.clone(), value);
        }
    }
    parsed
}

impl Exchange {
    fn new(
        record: record::Exchange,
        blobs: &HashMap<Id, Bytes>,
        parsed: &HashMap<Id, Value>,
        normal: &Normal,
    ) -> Self {
        let body = record.response.body.as_ref().and_then(|id| blobs.get(id)).cloned().unwrap_or_default();
        let request = &record.request;
        let api = Api::of(&request.method, &request.path);
        let dialogue = api.and_then(|api| {
            let whole = reduce::restore(&request.body, &|id| parsed.get(id).cloned());
            dialogue::read(api, &request.path, &whole, normal)
        });
        let turn = dialogue.as_ref().map_or(0, |dialogue| dialogue.turn);
        Self { record, body, api, dialogue, lane: None, turn }
    }

    /// The order of arrival, from 1.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.record.number
    }

    /// When it was asked, counted from the beginning of the tape.
    #[must_use]
    pub fn at(&self) -> Duration {
        Duration::from_millis(self.record.at_ms)
    }

    /// How long the answer took, to its last byte.
    #[must_use]
    pub fn took(&self) -> Duration {
        let micros =
            self.record.response.pieces.iter().fold(0_u64, |sum, (wait, _)| sum.saturating_add(*wait));
        Duration::from_micros(micros)
    }

    /// The HTTP method.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.record.request.method
    }

    /// The path without the query.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.record.request.path
    }

    /// The status; nothing when there was no answer.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.record.response.status
    }

    /// The answer's body as it came.
    #[must_use]
    pub fn response_body(&self) -> &[u8] {
        &self.body
    }

    /// Whether the answer came to its end.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.record.response.end == record::Ending::Complete
    }

    /// How the answer ended: `complete`, `cut`, `left`, `unreachable` or `too_large`.
    #[must_use]
    pub fn ending(&self) -> &'static str {
        match self.record.response.end {
            record::Ending::Complete => "complete",
            record::Ending::Cut => "cut",
            record::Ending::Left => "left",
            record::Ending::Unreachable => "unreachable",
            record::Ending::TooLarge => "too_large",
        }
    }

    /// The model that answered.
    #[must_use]
    pub fn model(&self) -> Option<&str> {
        self.record.model.as_deref()
    }

    /// The tokens that the answer says.
    #[must_use]
    pub fn usage(&self) -> Option<&TokenUsage> {
        self.record.usage.as_ref()
    }

    /// The turn within its lane, from 1; 0 for what is no conversation.
    #[must_use]
    pub fn turn(&self) -> usize {
        self.turn
    }

    /// What is new in the request since the model last spoke, as it is compared: one text for each part.
    #[must_use]
    pub fn new_parts(&self) -> Vec<String> {
        let Some(dialogue) = &self.dialogue else { return Vec::new() };
        let parts = if dialogue.spoken.is_empty() { &dialogue.opening } else { &dialogue.new };
        parts.iter().map(|part| format!("{}: {}", part.title(), part.text())).collect()
    }

    /// Whether the model answered, and all of it came.
    pub(crate) fn is_good(&self) -> bool {
        self.is_complete() && self.status().is_some_and(|status| (200..300).contains(&status))
    }

    pub(crate) fn pieces(&self) -> &Pieces {
        &self.record.response.pieces
    }
}
