//! A copy of a tape without secrets that nobody knew of when it was recorded.

use std::path::Path;

use serde_json::Value;

use super::Tape;
use crate::error::Error;
use crate::format::Id;
use crate::format::record::{Body, Item};
use crate::format::reduce::Store as _;
use crate::format::writer::Writer;
use crate::rewrite::rewrite;
use crate::secrets::Secrets;
use crate::swap::Swap;

impl Tape {
    /// Writes a copy in which each of these texts is `[REDACTED:NAME]`, and opens it.
    ///
    /// # Errors
    /// When there is a file already, or it can't be written.
    pub fn redact(&self, to: impl AsRef<Path>, secrets: &Secrets) -> Result<Self, Error> {
        let to = to.as_ref();
        let failed = |source| Error::WriteTape { path: to.to_owned(), source };
        let swap = secrets.swap();
        let mut head = self.head().clone();
        head.upstream = swap.text(&head.upstream).into_owned();
        head.places.values_mut().for_each(|place| *place = swap.text(place).into_owned());
        let mut writer = Writer::create(to, head).map_err(failed)?;
        for exchange in self.exchanges() {
            let mut record = exchange.record.clone();
            let request = &mut record.request;
            request.path = swap.text(&request.path).into_owned();
            request.query = swap.text(&request.query).into_owned();
            for (_, value) in request.headers.iter_mut().chain(&mut record.response.headers) {
                *value = swap.text(value).into_owned();
            }
            self.redact_body(&mut request.body, &swap, &mut writer);
            if record.response.body.is_some() {
                let (body, pieces) = rewrite(&exchange.body, exchange.pieces(), &swap)
                    .unwrap_or_else(|| (exchange.body.to_vec(), exchange.pieces().clone()));
                record.response.body = Some(writer.put(&body));
                record.response.pieces = pieces;
            }
            writer.append(record).map_err(failed)?;
        }
        // A tape that was cut stays one that was cut.
        if self.cut().is_none() {
            writer.finish().map_err(failed)?;
        }
        Self::open(to)
    }

    fn redact_body(&self, body: &mut Body, swap: &Swap, writer: &mut Writer) {
        match body {
            Body::None => {}
            Body::Blob(id) => *id = self.redact_part(id, swap, writer),
            Body::Json(json) => {
                for field in json.fields.values_mut() {
                    swap.value(field);
                }
                json.blobs.values_mut().for_each(|id| *id = self.redact_part(id, swap, writer));
                for item in json.lists.values_mut().flatten() {
                    if let Item::Blob(id) = item {
                        *id = self.redact_part(id, swap, writer);
                    }
                }
            }
        }
    }

    fn redact_part(&self, id: &Id, swap: &Swap, writer: &mut Writer) -> Id {
        let bytes = self.blobs().get(id).cloned().unwrap_or_default();
        match serde_json::from_slice::<Value>(&bytes) {
            Ok(mut value) => {
                let is_changed = swap.value(&mut value);
                if is_changed { writer.put(value.to_string().as_bytes()) } else { writer.put(&bytes) }
            }
            Err(_) => writer.put(swap.text(&String::from_utf8_lossy(&bytes)).as_bytes()),
        }
    }
}
