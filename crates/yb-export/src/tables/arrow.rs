//! A writer of Arrow files (IPC, the format of Feather version 2): one record batch without compression.

use std::io;

use super::flatbuffer::{self, Fb};
use super::{Column, Table, Values};

const MAGIC: &[u8] = b"ARROW1";
/// The marker before each message.
const CONTINUATION: [u8; 4] = [0xff; 4];
// Numbers of the format.
const METADATA_V5: i16 = 4;
const SCHEMA: u8 = 1;
const RECORD_BATCH: u8 = 3;

/// Returns the table as an Arrow file.
///
/// # Errors
/// If a column of texts is larger than 2 GiB.
pub(super) fn write(table: &Table) -> io::Result<Vec<u8>> {
    let mut file = MAGIC.to_vec();
    file.extend([0; 2]);
    message(SCHEMA, schema(table), &[], &mut file);
    let (nodes, buffers, body) = body(table)?;
    let batch = Fb::Table(vec![
        (0, Fb::I64(table.rows as i64)),
        (1, Fb::Structs(table.columns.len(), nodes)),
        (2, Fb::Structs(buffers.len() / 16, buffers)),
    ]);
    let offset = file.len();
    let metadata = message(RECORD_BATCH, batch, &body, &mut file);
    file.extend(CONTINUATION);
    file.extend([0; 4]);
    let mut block = (offset as i64).to_le_bytes().to_vec();
    block.extend((metadata as i64).to_le_bytes());
    block.extend((body.len() as i64).to_le_bytes());
    let footer = flatbuffer::finish(&Fb::Table(vec![
        (0, Fb::I16(METADATA_V5)),
        (1, schema(table)),
        (2, Fb::Structs(0, Vec::new())),
        (3, Fb::Structs(1, block)),
    ]));
    file.extend(&footer);
    file.extend((footer.len() as u32).to_le_bytes());
    file.extend(MAGIC);
    Ok(file)
}

/// Appends a message and returns the length of its metadata with the prefix.
fn message(kind: u8, header: Fb, body: &[u8], file: &mut Vec<u8>) -> usize {
    let metadata = flatbuffer::finish(&Fb::Table(vec![
        (0, Fb::I16(METADATA_V5)),
        (1, Fb::U8(kind)),
        (2, header),
        (3, Fb::I64(body.len() as i64)),
    ]));
    file.extend(CONTINUATION);
    file.extend((metadata.len() as u32).to_le_bytes());
    file.extend(&metadata);
    file.extend(body);
    metadata.len() + 8
}

fn schema(table: &Table) -> Fb {
    let field = |column: &Column| {
        let (number, kind) = match column.values {
            Values::Int(_) => (2, vec![(0, Fb::I32(64)), (1, Fb::U8(1))]),
            Values::Float(_) => (3, vec![(0, Fb::I16(2))]),
            Values::Text(_) => (5, Vec::new()),
            Values::Bool(_) => (6, Vec::new()),
        };
        Fb::Table(vec![
            (0, Fb::Text(column.name)),
            (1, Fb::U8(1)),
            (2, Fb::U8(number)),
            (3, Fb::Table(kind)),
            (5, Fb::Tables(Vec::new())),
        ])
    };
    Fb::Table(vec![(0, Fb::I16(0)), (1, Fb::Tables(table.columns.iter().map(field).collect()))])
}

/// The columns: which of their values are null, and the values.
fn body(table: &Table) -> io::Result<(Vec<u8>, Vec<u8>, Vec<u8>)> {
    let (mut nodes, mut buffers, mut body) = (Vec::new(), Vec::new(), Vec::new());
    for column in &table.columns {
        let valid: Vec<bool> = match &column.values {
            Values::Text(values) => values.iter().map(Option::is_some).collect(),
            Values::Int(values) => values.iter().map(Option::is_some).collect(),
            Values::Float(values) => values.iter().map(Option::is_some).collect(),
            Values::Bool(values) => values.iter().map(Option::is_some).collect(),
        };
        let nulls = valid.iter().filter(|valid| !**valid).count();
        nodes.extend((table.rows as i64).to_le_bytes());
        nodes.extend((nulls as i64).to_le_bytes());
        let mut add = |content: &[u8]| {
            buffers.extend((body.len() as i64).to_le_bytes());
            buffers.extend((content.len() as i64).to_le_bytes());
            body.extend(content);
            while body.len() % 8 != 0 {
                body.push(0);
            }
        };
        add(&bits(&valid));
        match &column.values {
            Values::Text(values) => {
                let (mut offsets, mut texts) = (vec![0; 4], Vec::new());
                for value in values {
                    texts.extend(value.as_deref().unwrap_or_default().as_bytes());
                    let end = i32::try_from(texts.len())
                        .map_err(|_| io::Error::other("a column of texts has at most 2 GiB"))?;
                    offsets.extend(end.to_le_bytes());
                }
                add(&offsets);
                add(&texts);
            }
            Values::Int(values) => {
                let bytes: Vec<u8> =
                    values.iter().flat_map(|value| value.unwrap_or_default().to_le_bytes()).collect();
                add(&bytes);
            }
            Values::Float(values) => {
                let bytes: Vec<u8> =
                    values.iter().flat_map(|value| value.unwrap_or_default().to_le_bytes()).collect();
                add(&bytes);
            }
            Values::Bool(values) => {
                add(&bits(&values.iter().map(|value| *value == Some(true)).collect::<Vec<_>>()));
            }
        }
    }
    Ok((nodes, buffers, body))
}

fn bits(values: &[bool]) -> Vec<u8> {
    let mut bytes = vec![0; values.len().div_ceil(8)];
    for (at, value) in values.iter().enumerate() {
        if let Some(byte) = bytes.get_mut(at / 8).filter(|_| *value) {
            *byte |= 1 << (at % 8);
        }
    }
    bytes
}
