//! Recorded tapes: exchanges, lanes and integrity.

pub(crate) mod case;
mod check;
mod redact;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use serde_json::Value;

pub use self::check::{TapeDifference, TapeVerification};
use crate::error::Error;
use crate::format::record::{self, CaseRecord, ExchangeRecord, TapeHeader, TapeLine};
use crate::format::seal::Chain;
use crate::format::{BlobId, VERSION, file, frame, reduce};
use crate::matching::dialogue::{self, Api, Dialogue};
use crate::matching::lanes;
use crate::matching::normalize::Normalizer;
use crate::rewrite::ChunkLayout;
use crate::usage::{ObservedUsage, TokenUsage};

/// A recorded tape. Clones share its data.
#[derive(Debug, Clone)]
pub struct Tape(Arc<TapeData>);

#[derive(Debug)]
struct TapeData {
    path: PathBuf,
    header: TapeHeader,
    case: Option<CaseRecord>,
    blobs: HashMap<BlobId, Bytes>,
    exchanges: Vec<Exchange>,
    lanes: Vec<Lane>,
    truncation: Option<TapeTruncation>,
    /// Changes since the recording.
    changes: Vec<String>,
}

/// A recorded request and its response.
#[derive(Debug, Clone)]
pub struct Exchange {
    pub(crate) record: ExchangeRecord,
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
    /// `main`, `subagent-1`, `side-1` and so on, numbered in order of their first request.
    pub name: String,
    /// The beginning of the first user message.
    pub opening: String,
    /// Indices into [`Tape::exchanges`], in order; a retried turn has several exchanges.
    pub exchanges: Vec<usize>,
}

/// Where a tape is truncated.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TapeTruncation {
    /// Offset of the first byte that can't be read.
    pub at: u64,
    /// Description of the problem.
    pub reason: String,
}

impl Tape {
    /// Reads a tape. A truncated tape is read up to the truncation, see [`Tape::truncation`].
    ///
    /// # Errors
    /// When the file can't be read, is not a tape, or has a newer format version.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let file = fs::read(path).map_err(|source| Error::ReadTape { path: path.to_owned(), source })?;
        Self::parse(path, &file)
    }

    pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Result<Self, Error> {
        let invalid = |reason: String| Error::InvalidTape { path: path.to_owned(), reason };
        let mut rest = bytes;
        let mut header = None;
        let mut case = None;
        let mut blobs: HashMap<BlobId, Bytes> = HashMap::new();
        let mut records = Vec::new();
        let mut truncation = None;
        let mut footer = None;
        let mut changes = Vec::new();
        let (mut budget, mut chain, mut frames) =
            (frame::DecodeBudget::of_file(bytes.len()), Chain::default(), 0);
        while !rest.is_empty() {
            let at = u64::try_from(bytes.len() - rest.len()).unwrap_or(u64::MAX);
            let lines = match frame::decode(&mut rest, &mut budget) {
                Ok(lines) => lines,
                Err(error) => {
                    truncation = Some(TapeTruncation { at, reason: error.to_string() });
                    break;
                }
            };
            let (mut invalid_line, mut seal) = (None, None);
            frames += 1;
            if footer.is_some() {
                changes.push(format!("frame {frames} is after the end of the recording"));
            }
            for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                match serde_json::from_slice(line) {
                    Ok(TapeLine::Header(found)) => {
                        if found.version > VERSION {
                            return Err(Error::UnsupportedTapeVersion {
                                path: path.to_owned(),
                                version: found.version,
                            });
                        }
                        header.get_or_insert(found);
                    }
                    Ok(TapeLine::Blob(blob)) => {
                        if let Some(bytes) = file::blob_bytes(blob.content) {
                            if BlobId::from_bytes(&bytes) != blob.id {
                                changes.push(format!("hash mismatch of a blob: {}", blob.id));
                            }
                            blobs.insert(blob.id, bytes.into());
                        }
                    }
                    Ok(TapeLine::Case(found)) => case = Some(found),
                    Ok(TapeLine::Exchange(exchange)) => records.push(*exchange),
                    Ok(TapeLine::Footer(found)) => footer = Some(found),
                    Ok(TapeLine::Seal(found)) => seal = Some(found),
                    Ok(TapeLine::Unknown) => {}
                    Err(error) => invalid_line = Some(error.to_string()),
                }
                if header.is_none() {
                    return Err(invalid("no tape header in the first line".to_owned()));
                }
            }
            if let Some(reason) = invalid_line {
                truncation = Some(TapeTruncation { at, reason });
                break;
            }
            let intact = chain.check(&lines, seal.as_ref());
            if !intact && header.as_ref().is_some_and(|header| header.sealed) {
                changes.push(format!("seal mismatch in frame {frames}, at byte {at}"));
            }
        }
        let Some(header) = header else {
            let reason = truncation.map_or_else(|| "empty file".to_owned(), |truncation| truncation.reason);
            return Err(invalid(reason));
        };
        match &footer {
            Some(footer) if footer.exchanges != records.len() as u64 => {
                changes.push(format!("{} exchanges of {} recorded ones", records.len(), footer.exchanges));
            }
            _ => {}
        }
        if footer.is_none() && truncation.is_none() {
            let at = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            truncation = Some(TapeTruncation { at, reason: "the recording was not finished".to_owned() });
        }
        records.sort_by_key(|exchange: &ExchangeRecord| exchange.number);
        let normalizer = Normalizer::new(&header.directories);
        let parsed = parse_blobs(&blobs, &records);
        let mut exchanges: Vec<Exchange> =
            records.into_iter().map(|record| Exchange::new(record, &blobs, &parsed, &normalizer)).collect();
        let lanes = lanes::assign(&mut exchanges);
        Ok(Self(Arc::new(TapeData {
            path: path.to_owned(),
            header,
            case,
            blobs,
            exchanges,
            lanes,
            truncation,
            changes,
        })))
    }

    /// Returns the path of the tape file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Returns the URL of the recorded API.
    #[must_use]
    pub fn upstream(&self) -> &str {
        &self.0.header.upstream
    }

    /// Returns the start of the recording in milliseconds since the Unix epoch.
    #[must_use]
    pub fn created_ms(&self) -> u64 {
        self.0.header.created_ms
    }

    /// Returns the directories of the recorded run, by name.
    #[must_use]
    pub fn directories(&self) -> &BTreeMap<String, String> {
        &self.0.header.directories
    }

    /// Returns whether requests were recorded in full.
    #[must_use]
    pub fn has_full_requests(&self) -> bool {
        self.0.header.full_requests
    }

    /// Returns the exchanges in order of their requests.
    #[must_use]
    pub fn exchanges(&self) -> &[Exchange] {
        &self.0.exchanges
    }

    /// Returns the conversations in order of their first request.
    #[must_use]
    pub fn lanes(&self) -> &[Lane] {
        &self.0.lanes
    }

    /// Returns where the tape is truncated, or `None` if the recording was finished.
    #[must_use]
    pub fn truncation(&self) -> Option<&TapeTruncation> {
        self.0.truncation.as_ref()
    }

    /// Returns whether the recorder sealed the tape, so that every change is noticed. Older versions did not.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.0.header.sealed
    }

    /// Returns what was changed since the recording, one line for each change that is noticed.
    #[must_use]
    pub fn changes(&self) -> &[String] {
        &self.0.changes
    }

    /// Rejects a tape that was changed since it was recorded.
    ///
    /// # Errors
    /// Returns the first change.
    pub fn check_unchanged(&self) -> Result<(), Error> {
        match self.0.changes.first() {
            None => Ok(()),
            Some(change) => Err(Error::ChangedTape { path: self.0.path.clone(), change: change.clone() }),
        }
    }

    /// Returns requests and tokens of the recorded run.
    #[must_use]
    pub fn observed(&self) -> ObservedUsage {
        let mut observed = ObservedUsage::default();
        for exchange in &self.0.exchanges {
            observed.exchanges += 1;
            if let Some(usage) = &exchange.record.usage {
                let model = exchange.record.model.clone().unwrap_or_default();
                observed.models.entry(model).or_default().add(usage);
            }
        }
        observed
    }

    /// Returns the recorded body of a request, with `[blake3:…]` where only a hash was recorded.
    #[must_use]
    pub fn request_body(&self, exchange: &Exchange) -> Value {
        let get = |id: &BlobId| parse_blob(self.0.blobs.get(id)?);
        reduce::restore(&exchange.record.request.body, &get)
    }

    /// Returns the lane of an exchange, or `None` if it belongs to no conversation.
    #[must_use]
    pub fn lane_of(&self, exchange: &Exchange) -> Option<&Lane> {
        self.0.lanes.get(exchange.lane?)
    }

    pub(crate) fn case(&self) -> Option<&CaseRecord> {
        self.0.case.as_ref()
    }

    pub(crate) fn header(&self) -> &TapeHeader {
        &self.0.header
    }

    pub(crate) fn blobs(&self) -> &HashMap<BlobId, Bytes> {
        &self.0.blobs
    }
}

fn parse_blob(bytes: &Bytes) -> Option<Value> {
    Some(serde_json::from_slice(bytes).unwrap_or_else(|_| String::from_utf8_lossy(bytes).into()))
}

/// Parses the blobs of all requests, each once: most are shared by many requests.
fn parse_blobs(blobs: &HashMap<BlobId, Bytes>, records: &[ExchangeRecord]) -> HashMap<BlobId, Value> {
    let mut parsed = HashMap::new();
    for id in records.iter().flat_map(|record| reduce::referenced_blobs(&record.request.body)) {
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
        record: ExchangeRecord,
        blobs: &HashMap<BlobId, Bytes>,
        parsed: &HashMap<BlobId, Value>,
        normalizer: &Normalizer,
    ) -> Self {
        let body = record.response.body.as_ref().and_then(|id| blobs.get(id)).cloned().unwrap_or_default();
        let request = &record.request;
        let api = Api::from_request(&request.method, &request.path);
        let dialogue = api.and_then(|api| {
            let whole = reduce::restore(&request.body, &|id| parsed.get(id).cloned());
            dialogue::read(api, &request.path, &whole, normalizer)
        });
        let turn = dialogue.as_ref().map_or(0, |dialogue| dialogue.turn);
        Self { record, body, api, dialogue, lane: None, turn }
    }

    /// Returns the position in order of arrival, from 1.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.record.number
    }

    /// Returns the time of the request since the start of the recording.
    #[must_use]
    pub fn start_offset(&self) -> Duration {
        Duration::from_millis(self.record.at_ms)
    }

    /// Returns the time from the request to the last byte of the response.
    #[must_use]
    pub fn duration(&self) -> Duration {
        let micros =
            self.record.response.chunks.iter().fold(0_u64, |sum, (wait, _)| sum.saturating_add(*wait));
        Duration::from_micros(micros)
    }

    /// Returns the HTTP method.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.record.request.method
    }

    /// Returns the path without the query.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.record.request.path
    }

    /// Returns the response status, or `None` if there was no response.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.record.response.status
    }

    /// Returns the response body as received.
    #[must_use]
    pub fn response_body(&self) -> &[u8] {
        &self.body
    }

    /// Returns whether the response is complete.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.record.response.end == record::ResponseEnding::Complete
    }

    /// Returns how the response ended: `complete`, `cut` (closed by the upstream), `left` (client disconnected),
    /// `unreachable` or `too_large`.
    #[must_use]
    pub fn ending(&self) -> &'static str {
        match self.record.response.end {
            record::ResponseEnding::Complete => "complete",
            record::ResponseEnding::UpstreamClosed => "cut",
            record::ResponseEnding::ClientDisconnected => "left",
            record::ResponseEnding::Unreachable => "unreachable",
            record::ResponseEnding::TooLarge => "too_large",
        }
    }

    /// Returns the model that the response reports.
    #[must_use]
    pub fn model(&self) -> Option<&str> {
        self.record.model.as_deref()
    }

    /// Returns the token usage that the response reports.
    #[must_use]
    pub fn usage(&self) -> Option<&TokenUsage> {
        self.record.usage.as_ref()
    }

    /// Returns the turn within the lane, from 1; 0 if the exchange belongs to no conversation.
    #[must_use]
    pub fn turn(&self) -> usize {
        self.turn
    }

    /// Returns the normalized content of the request after the last model response, one string per part.
    #[must_use]
    pub fn new_parts(&self) -> Vec<String> {
        let Some(dialogue) = &self.dialogue else { return Vec::new() };
        let parts = if dialogue.model_parts.is_empty() { &dialogue.opening } else { &dialogue.new };
        parts.iter().map(|part| format!("{}: {}", part.title(), part.text())).collect()
    }

    /// Returns whether the response is complete and successful.
    pub(crate) fn is_success(&self) -> bool {
        self.is_complete() && self.status().is_some_and(|status| (200..300).contains(&status))
    }

    pub(crate) fn chunks(&self) -> &ChunkLayout {
        &self.record.response.chunks
    }
}
