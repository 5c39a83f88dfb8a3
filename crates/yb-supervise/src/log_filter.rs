//! Keeps lines of stdout that begin with a given text out of the log, because something else has their content.

/// A filter for the lines of one pipe.
#[derive(Debug)]
pub(crate) struct LineFilter {
    prefix: Vec<u8>,
    /// How much of the line is the beginning of the prefix; `None` if the line is decided.
    matched: Option<usize>,
    is_omitted: bool,
    omitted: u64,
}

impl LineFilter {
    pub(crate) fn new(prefix: Vec<u8>) -> Self {
        Self { prefix, matched: Some(0), is_omitted: false, omitted: 0 }
    }

    /// Passes on all bytes but those of omitted lines.
    pub(crate) fn push(&mut self, chunk: &[u8], emit: &mut dyn FnMut(&[u8])) {
        for line in chunk.split_inclusive(|byte| *byte == b'\n') {
            self.push_part(line, emit);
            if line.ends_with(b"\n") {
                self.finish(emit);
            }
        }
    }

    fn push_part(&mut self, part: &[u8], emit: &mut dyn FnMut(&[u8])) {
        let Some(matched) = self.matched else {
            match self.is_omitted {
                true => self.omitted += part.len() as u64,
                false => emit(part),
            }
            return;
        };
        let missing = self.prefix.get(matched..).unwrap_or_default();
        let common = missing.iter().zip(part).take_while(|(one, other)| one == other).count();
        if common == missing.len() {
            (self.matched, self.is_omitted) = (None, true);
            self.omitted += (matched + part.len()) as u64;
        } else if common == part.len() {
            self.matched = Some(matched + common);
        } else {
            (self.matched, self.is_omitted) = (None, false);
            emit(self.prefix.get(..matched).unwrap_or_default());
            emit(part);
        }
    }

    /// Ends the current line.
    pub(crate) fn finish(&mut self, emit: &mut dyn FnMut(&[u8])) {
        if let Some(matched @ 1..) = self.matched {
            emit(self.prefix.get(..matched).unwrap_or_default());
        }
        (self.matched, self.is_omitted) = (Some(0), false);
    }

    /// The number of bytes that were omitted.
    pub(crate) fn omitted(&self) -> u64 {
        self.omitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_the_prefix_are_omitted_in_chunks_of_any_size() {
        let text = "a\n{\"p\":1}\n{\"p\n{\"q\":1}\n\n{\"p\":2\n{\"p";
        for size in 1..=text.len() {
            let mut filter = LineFilter::new(b"{\"p\":".to_vec());
            let mut out = Vec::new();
            for chunk in text.as_bytes().chunks(size) {
                filter.push(chunk, &mut |part| out.extend_from_slice(part));
            }
            filter.finish(&mut |part| out.extend_from_slice(part));
            assert_eq!(String::from_utf8(out).unwrap(), "a\n{\"p\n{\"q\":1}\n\n{\"p", "{size}");
            assert_eq!(filter.omitted(), 8 + 7, "{size}");
        }
    }
}
