//! Redacts secrets in an existing tape.

use std::path::Path;

use serde_json::Value;

use super::Tape;
use super::case;
use crate::error::Error;
use crate::format::BlobId;
use crate::format::file::TapeFile;
use crate::format::record::{ListItem, RequestBody};
use crate::format::reduce::BlobStore as _;
use crate::replace::TextReplacer;
use crate::rewrite::rewrite;
use crate::secrets::Secrets;

impl Tape {
    /// Writes a copy with each secret replaced by `[REDACTED:NAME]`, and opens it.
    ///
    /// # Errors
    /// When the tape was changed since it was recorded, or the file `to` exists or can't be written.
    pub fn redact(&self, to: impl AsRef<Path>, secrets: &Secrets) -> Result<Self, Error> {
        // The copy gets new seals, which must not cover up a change.
        self.check_unchanged()?;
        let to = to.as_ref();
        let failed = |source| Error::WriteTape { path: to.to_owned(), source };
        let replacer = secrets.replacer();
        let mut header = self.header().clone();
        header.upstream = replacer.replace(&header.upstream).into_owned();
        header.directories.values_mut().for_each(|path| *path = replacer.replace(path).into_owned());
        let mut copy = TapeFile::create(to, header).map_err(failed)?;
        if let Some(case) = self.case() {
            copy.append_case(case::redacted(case, &replacer)).map_err(failed)?;
        }
        for exchange in self.exchanges() {
            let mut record = exchange.record.clone();
            let request = &mut record.request;
            request.path = replacer.replace(&request.path).into_owned();
            request.query = replacer.replace(&request.query).into_owned();
            for (_, value) in request.headers.iter_mut().chain(&mut record.response.headers) {
                *value = replacer.replace(value).into_owned();
            }
            self.redact_body(&mut request.body, &replacer, &mut copy);
            if record.response.body.is_some() {
                let (body, chunks) = rewrite(&exchange.body, exchange.chunks(), &replacer)
                    .unwrap_or_else(|| (exchange.body.to_vec(), exchange.chunks().clone()));
                record.response.body = Some(copy.put(&body));
                record.response.chunks = chunks;
            }
            copy.append(record).map_err(failed)?;
        }
        // The copy of a truncated tape is marked as unfinished as well.
        if self.truncation().is_none() {
            copy.finish().map_err(failed)?;
        }
        Self::open(to)
    }

    fn redact_body(&self, body: &mut RequestBody, replacer: &TextReplacer, copy: &mut TapeFile) {
        match body {
            RequestBody::None => {}
            RequestBody::Blob(id) => *id = self.redact_blob(id, replacer, copy),
            RequestBody::Json(json) => {
                for field in json.fields.values_mut() {
                    replacer.replace_in_value(field);
                }
                json.blobs.values_mut().for_each(|id| *id = self.redact_blob(id, replacer, copy));
                for item in json.lists.values_mut().flatten() {
                    if let ListItem::Blob(id) = item {
                        *id = self.redact_blob(id, replacer, copy);
                    }
                }
            }
        }
    }

    fn redact_blob(&self, id: &BlobId, replacer: &TextReplacer, copy: &mut TapeFile) -> BlobId {
        let bytes = self.blobs().get(id).cloned().unwrap_or_default();
        match serde_json::from_slice::<Value>(&bytes) {
            Ok(mut value) => {
                let is_changed = replacer.replace_in_value(&mut value);
                if is_changed { copy.put(value.to_string().as_bytes()) } else { copy.put(&bytes) }
            }
            Err(_) => copy.put(replacer.replace(&String::from_utf8_lossy(&bytes)).as_bytes()),
        }
    }
}
