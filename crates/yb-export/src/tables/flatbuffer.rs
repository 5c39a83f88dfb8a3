//! A writer of flatbuffers, front to back: enough for the metadata of Arrow.

/// A value of a field.
pub(super) enum Fb {
    U8(u8),
    I16(i16),
    I32(i32),
    I64(i64),
    Text(&'static str),
    /// Fields by their number.
    Table(Vec<(usize, Fb)>),
    Tables(Vec<Fb>),
    /// Structures of 64-bit numbers: their number and their bytes.
    Structs(usize, Vec<u8>),
}

impl Fb {
    /// The size of the field in its table: a scalar, or the offset of what follows later.
    fn inline_size(&self) -> usize {
        match self {
            Self::U8(_) => 1,
            Self::I16(_) => 2,
            Self::I64(_) => 8,
            _ => 4,
        }
    }
}

/// Returns a buffer with this table as its root.
pub(super) fn finish(root: &Fb) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    let at = write(root, &mut bytes);
    patch(&mut bytes, 0, at);
    align(&mut bytes, 8, 0);
    bytes
}

/// Pads until the length plus `ahead` is a multiple.
fn align(bytes: &mut Vec<u8>, to: usize, ahead: usize) {
    while !(bytes.len() + ahead).is_multiple_of(to) {
        bytes.push(0);
    }
}

/// Sets an offset, which counts from its own position.
fn patch(bytes: &mut [u8], place: usize, target: usize) {
    let offset = (target - place) as u32;
    if let Some(slot) = bytes.get_mut(place..place + 4) {
        slot.copy_from_slice(&offset.to_le_bytes());
    }
}

/// Appends a value that is not inline and returns its position.
fn write(value: &Fb, bytes: &mut Vec<u8>) -> usize {
    match value {
        Fb::Table(fields) => write_table(fields, bytes),
        Fb::Text(text) => {
            align(bytes, 4, 0);
            let at = bytes.len();
            bytes.extend((text.len() as u32).to_le_bytes());
            bytes.extend(text.as_bytes());
            bytes.push(0);
            at
        }
        Fb::Tables(tables) => {
            align(bytes, 4, 0);
            let at = bytes.len();
            bytes.extend((tables.len() as u32).to_le_bytes());
            bytes.resize(bytes.len() + 4 * tables.len(), 0);
            for (number, table) in tables.iter().enumerate() {
                let target = write(table, bytes);
                patch(bytes, at + 4 + 4 * number, target);
            }
            at
        }
        Fb::Structs(count, content) => {
            // The elements, not their number, are aligned.
            align(bytes, 8, 4);
            let at = bytes.len();
            bytes.extend((*count as u32).to_le_bytes());
            bytes.extend(content);
            at
        }
        // Scalars are inline.
        Fb::U8(_) | Fb::I16(_) | Fb::I32(_) | Fb::I64(_) => bytes.len(),
    }
}

fn write_table(fields: &[(usize, Fb)], bytes: &mut Vec<u8>) -> usize {
    let slots = fields.iter().map(|(number, _)| number + 1).max().unwrap_or(0);
    align(bytes, 4, 0);
    let vtable = bytes.len();
    bytes.resize(vtable + 4 + 2 * slots, 0);
    align(bytes, 8, 0);
    let table = bytes.len();
    bytes.extend(((table - vtable) as i32).to_le_bytes());
    let mut offsets = vec![0u16; slots];
    let mut later = Vec::new();
    for (number, value) in fields {
        align(bytes, value.inline_size(), 0);
        let place = bytes.len();
        if let Some(offset) = offsets.get_mut(*number) {
            *offset = (place - table) as u16;
        }
        match value {
            Fb::U8(value) => bytes.push(*value),
            Fb::I16(value) => bytes.extend(value.to_le_bytes()),
            Fb::I32(value) => bytes.extend(value.to_le_bytes()),
            Fb::I64(value) => bytes.extend(value.to_le_bytes()),
            other => {
                bytes.extend([0; 4]);
                later.push((place, other));
            }
        }
    }
    let size = (bytes.len() - table) as u16;
    let mut head = ((4 + 2 * slots) as u16).to_le_bytes().to_vec();
    head.extend(size.to_le_bytes());
    offsets.iter().for_each(|offset| head.extend(offset.to_le_bytes()));
    if let Some(slot) = bytes.get_mut(vtable..vtable + head.len()) {
        slot.copy_from_slice(&head);
    }
    for (place, value) in later {
        let target = write(value, bytes);
        patch(bytes, place, target);
    }
    table
}
