//! A writer of Parquet files: one row group, one gzip page of plain values per column. See docs/design/export.md for why it is our own.

use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{Column, Table, Values};

const MAGIC: &[u8] = b"PAR1";
// Numbers of the format.
const GZIP: i64 = 2;
const PLAIN: i64 = 0;
const RLE: i64 = 3;
const OPTIONAL: i64 = 1;
const UTF8: i64 = 0;

/// Returns the table as a Parquet file.
///
/// # Errors
/// If a column is larger than 2 GiB.
pub(super) fn write(table: &Table) -> io::Result<Vec<u8>> {
    let mut file = MAGIC.to_vec();
    let mut chunks = Vec::new();
    if table.rows > 0 {
        for column in &table.columns {
            chunks.push(write_chunk(column, table.rows, &mut file)?);
        }
    }
    let metadata = metadata(table, chunks);
    let length = u32::try_from(metadata.len()).map_err(|_| io::Error::other("too many columns"))?;
    file.extend(metadata);
    file.extend(length.to_le_bytes());
    file.extend(MAGIC);
    Ok(file)
}

/// Writes the page of a column, and returns the description of the column.
fn write_chunk(column: &Column, rows: usize, file: &mut Vec<u8>) -> io::Result<Thrift> {
    let size = |length: usize| {
        i32::try_from(length).map(i64::from).map_err(|_| io::Error::other("a column has at most 2 GiB"))
    };
    let page = page(&column.values)?;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&page)?;
    let packed = encoder.finish()?;
    let values = size(rows)?;
    let header = Thrift::default()
        .i32(1, 0)
        .i32(2, size(page.len())?)
        .i32(3, size(packed.len())?)
        .structure(5, Thrift::default().i32(1, values).i32(2, PLAIN).i32(3, RLE).i32(4, RLE))
        .finish();
    let offset = file.len() as i64;
    file.extend(&header);
    file.extend(&packed);
    let metadata = Thrift::default()
        .i32(1, physical(&column.values))
        .i32s(2, &[PLAIN, RLE])
        .texts(3, &[column.name])
        .i32(4, GZIP)
        .i64(5, values)
        .i64(6, (header.len() + page.len()) as i64)
        .i64(7, (header.len() + packed.len()) as i64)
        .i64(9, offset);
    Ok(Thrift::default().i64(2, offset).structure(3, metadata))
}

fn physical(values: &Values) -> i64 {
    match values {
        Values::Bool(_) => 0,
        Values::Int(_) => 2,
        Values::Float(_) => 5,
        Values::Text(_) => 6,
    }
}

/// Definition levels, and the values that are not null.
fn page(values: &Values) -> io::Result<Vec<u8>> {
    let mut data = Vec::new();
    let levels = match values {
        Values::Text(values) => {
            for value in values.iter().flatten() {
                let length =
                    u32::try_from(value.len()).map_err(|_| io::Error::other("a text has at most 4 GiB"))?;
                data.extend(length.to_le_bytes());
                data.extend(value.as_bytes());
            }
            levels(values)
        }
        Values::Int(values) => {
            values.iter().flatten().for_each(|value| data.extend(value.to_le_bytes()));
            levels(values)
        }
        Values::Float(values) => {
            values.iter().flatten().for_each(|value| data.extend(value.to_le_bytes()));
            levels(values)
        }
        Values::Bool(values) => {
            for (at, value) in values.iter().flatten().enumerate() {
                if at % 8 == 0 {
                    data.push(0);
                }
                if let Some(last) = data.last_mut().filter(|_| *value) {
                    *last |= 1 << (at % 8);
                }
            }
            levels(values)
        }
    };
    let mut page = (levels.len() as u32).to_le_bytes().to_vec();
    page.extend(levels);
    page.extend(data);
    Ok(page)
}

/// Runs of present and of absent values.
fn levels<T>(values: &[Option<T>]) -> Vec<u8> {
    let mut levels = Vec::new();
    let mut rest = values;
    while let Some(first) = rest.first() {
        let run = rest.iter().take_while(|value| value.is_some() == first.is_some()).count();
        varint((run as u64) << 1, &mut levels);
        levels.push(u8::from(first.is_some()));
        rest = rest.get(run..).unwrap_or_default();
    }
    levels
}

fn metadata(table: &Table, chunks: Vec<Thrift>) -> Vec<u8> {
    let root = Thrift::default().text(4, "schema").i32(5, table.columns.len() as i64);
    let column = |column: &Column| {
        let element =
            Thrift::default().i32(1, physical(&column.values)).i32(3, OPTIONAL).text(4, column.name);
        match column.values {
            // The old and the new way to say that bytes are a text.
            Values::Text(_) => {
                element.i32(6, UTF8).structure(10, Thrift::default().structure(1, Thrift::default()))
            }
            _ => element,
        }
    };
    let schema = std::iter::once(root).chain(table.columns.iter().map(column)).collect();
    let rows = table.rows as i64;
    let size: i64 = 0;
    let groups = if chunks.is_empty() {
        Vec::new()
    } else {
        vec![Thrift::default().structures(1, chunks).i64(2, size).i64(3, rows)]
    };
    Thrift::default()
        .i32(1, 1)
        .structures(2, schema)
        .i64(3, rows)
        .structures(4, groups)
        .text(6, concat!("youbencha version ", env!("CARGO_PKG_VERSION")))
        .finish()
}

fn varint(mut value: u64, bytes: &mut Vec<u8>) {
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// A structure in the compact protocol of Thrift, whose fields are added in ascending order.
#[derive(Default)]
struct Thrift {
    bytes: Vec<u8>,
    last: u8,
}

impl Thrift {
    fn header(&mut self, field: u8, kind: u8) {
        // Fields of the metadata are never more than 15 apart.
        self.bytes.push((field - self.last) << 4 | kind);
        self.last = field;
    }

    fn zigzag(&mut self, value: i64) {
        varint(((value << 1) ^ (value >> 63)) as u64, &mut self.bytes);
    }

    fn i32(mut self, field: u8, value: i64) -> Self {
        self.header(field, 5);
        self.zigzag(value);
        self
    }

    fn i64(mut self, field: u8, value: i64) -> Self {
        self.header(field, 6);
        self.zigzag(value);
        self
    }

    fn text(mut self, field: u8, text: &str) -> Self {
        self.header(field, 8);
        varint(text.len() as u64, &mut self.bytes);
        self.bytes.extend(text.as_bytes());
        self
    }

    fn structure(mut self, field: u8, inner: Self) -> Self {
        self.header(field, 12);
        self.bytes.extend(inner.finish());
        self
    }

    fn list(&mut self, field: u8, length: usize, kind: u8) {
        self.header(field, 9);
        if length < 15 {
            self.bytes.push((length as u8) << 4 | kind);
        } else {
            self.bytes.push(0xf0 | kind);
            varint(length as u64, &mut self.bytes);
        }
    }

    fn i32s(mut self, field: u8, values: &[i64]) -> Self {
        self.list(field, values.len(), 5);
        values.iter().for_each(|value| self.zigzag(*value));
        self
    }

    fn texts(mut self, field: u8, texts: &[&str]) -> Self {
        self.list(field, texts.len(), 8);
        for text in texts {
            varint(text.len() as u64, &mut self.bytes);
            self.bytes.extend(text.as_bytes());
        }
        self
    }

    fn structures(mut self, field: u8, inner: Vec<Self>) -> Self {
        self.list(field, inner.len(), 12);
        inner.into_iter().for_each(|one| self.bytes.extend(one.finish()));
        self
    }

    fn finish(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }
}
