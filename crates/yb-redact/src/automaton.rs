//! An Aho-Corasick automaton that exposes the depth of its states, which a scanner needs to know how much of a stream
//! may still become a secret.

/// The state before the first byte of any pattern.
pub(crate) const ROOT: u32 = 0;

#[derive(Debug, Clone, Copy, Default)]
struct Node {
    first_child: u32,
    sibling: u32,
    /// The state of the longest proper suffix that begins a pattern.
    fail: u32,
    depth: u32,
    /// A pattern that begins with the bytes of this state.
    pattern: u32,
    /// Length and pattern of the longest match that ends here; length 0 without one.
    found_length: u32,
    found_pattern: u32,
    byte: u8,
}

#[derive(Debug)]
pub(crate) struct Automaton {
    nodes: Vec<Node>,
    root: Box<[u32; 256]>,
    /// One bit for each two bytes that may begin a pattern.
    beginnings: Box<[u64; 1024]>,
}

impl Automaton {
    /// Builds the automaton of patterns with their numbers. The caller keeps the sum of their lengths below `u32::MAX`.
    pub(crate) fn new(patterns: impl Iterator<Item = (u32, Vec<u8>)>) -> Self {
        let mut automaton = Self {
            nodes: vec![Node::default()],
            root: Box::new([ROOT; 256]),
            beginnings: Box::new([0; 1024]),
        };
        for (number, bytes) in patterns {
            automaton.insert(number, &bytes);
        }
        automaton.link();
        automaton.mark_beginnings();
        automaton
    }

    /// Marks all pairs of bytes at which a scanner has to look closer.
    fn mark_beginnings(&mut self) {
        for first in 0..=u8::MAX {
            let state = self.root[usize::from(first)];
            for second in 0..=u8::MAX {
                let is_marked = if first == b'\\' {
                    matches!(second, b'u' | b'x' | b'\\')
                        || state != ROOT
                        || self.root[usize::from(second)] != ROOT
                } else {
                    let is_whole = self.nodes[state as usize].found_length > 0;
                    let continues = is_whole || self.child(state, second) != ROOT;
                    state != ROOT && (continues || second.is_ascii_whitespace() || second == b'\\')
                };
                if is_marked {
                    let (word, bit) = place(first, second);
                    self.beginnings[word] |= 1 << bit;
                }
            }
        }
    }

    fn may_begin(&self, first: u8, second: u8) -> bool {
        let (word, bit) = place(first, second);
        self.beginnings[word] >> bit & 1 == 1
    }

    /// Returns the first position where a pattern may begin, or the length.
    pub(crate) fn next_beginning(&self, bytes: &[u8]) -> usize {
        let pairs = bytes.iter().zip(bytes.iter().skip(1));
        for (at, (&first, &second)) in pairs.enumerate() {
            if !self.may_begin(first, second) {
                continue;
            }
            // Most words that end like the first byte of a pattern are followed by another word.
            let is_word_end = second == b' '
                && bytes.get(at + 2).is_some_and(|third| {
                    !third.is_ascii_whitespace() && *third != b'\\' && !self.may_begin(first, *third)
                });
            if !is_word_end {
                return at;
            }
        }
        match bytes.last() {
            Some(last) if *last == b'\\' || self.root[usize::from(*last)] != ROOT => bytes.len() - 1,
            _ => bytes.len(),
        }
    }

    fn insert(&mut self, pattern: u32, bytes: &[u8]) {
        let mut at = ROOT;
        for byte in bytes {
            at = match self.child(at, *byte) {
                ROOT => self.add(at, *byte, pattern),
                child => child,
            };
        }
        let node = &mut self.nodes[at as usize];
        if node.found_length == 0 {
            (node.found_length, node.found_pattern) = (node.depth, pattern);
        }
    }

    fn add(&mut self, parent: u32, byte: u8, pattern: u32) -> u32 {
        let new = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        let above = self.nodes[parent as usize];
        self.nodes.push(Node {
            sibling: above.first_child,
            depth: above.depth + 1,
            pattern,
            byte,
            ..Node::default()
        });
        self.nodes[parent as usize].first_child = new;
        if parent == ROOT {
            self.root[usize::from(byte)] = new;
        }
        new
    }

    /// Sets fail links and inherited matches, breadth first.
    fn link(&mut self) {
        let mut queue: Vec<u32> = self.children(ROOT);
        let mut next = 0;
        while let Some(&at) = queue.get(next) {
            next += 1;
            let fail = self.nodes[at as usize].fail;
            let inherited = self.nodes[fail as usize];
            let node = &mut self.nodes[at as usize];
            if node.found_length == 0 {
                (node.found_length, node.found_pattern) = (inherited.found_length, inherited.found_pattern);
            }
            for child in self.children(at) {
                let byte = self.nodes[child as usize].byte;
                self.nodes[child as usize].fail = self.step(fail, byte);
                queue.push(child);
            }
        }
    }

    fn children(&self, at: u32) -> Vec<u32> {
        let mut found = Vec::new();
        let mut child = self.nodes[at as usize].first_child;
        while child != ROOT {
            found.push(child);
            child = self.nodes[child as usize].sibling;
        }
        found
    }

    /// Returns the child for a byte, or `ROOT` if there is none.
    fn child(&self, at: u32, byte: u8) -> u32 {
        if at == ROOT {
            return self.root[usize::from(byte)];
        }
        let mut child = self.nodes[at as usize].first_child;
        while child != ROOT && self.nodes[child as usize].byte != byte {
            child = self.nodes[child as usize].sibling;
        }
        child
    }

    /// Returns the state after a byte.
    pub(crate) fn step(&self, mut at: u32, byte: u8) -> u32 {
        loop {
            let child = self.child(at, byte);
            if child != ROOT || at == ROOT {
                return child;
            }
            at = self.nodes[at as usize].fail;
        }
    }

    /// Returns the longest suffix of a state that more bytes can turn into a match.
    pub(crate) fn open_state(&self, mut at: u32) -> u32 {
        while at != ROOT && self.nodes[at as usize].first_child == ROOT {
            at = self.nodes[at as usize].fail;
        }
        at
    }

    pub(crate) fn depth(&self, at: u32) -> usize {
        self.nodes[at as usize].depth as usize
    }

    /// Returns a pattern that begins with the bytes of a state.
    pub(crate) fn pattern(&self, at: u32) -> u32 {
        self.nodes[at as usize].pattern
    }

    /// Returns length and pattern of the longest match that ends in a state.
    pub(crate) fn found(&self, at: u32) -> Option<(usize, u32)> {
        let node = &self.nodes[at as usize];
        (node.found_length > 0).then_some((node.found_length as usize, node.found_pattern))
    }
}

fn place(first: u8, second: u8) -> (usize, u32) {
    let number = u32::from(first) << 8 | u32::from(second);
    ((number >> 6) as usize, number & 63)
}
