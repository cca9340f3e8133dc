//! Changes that an input makes to bytes that were good.

/// An input, taken apart from its front. After its end there are zeros.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> usize {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        usize::from(*first)
    }

    pub fn two_bytes(&mut self) -> usize {
        self.byte() << 8 | self.byte()
    }

    /// Up to 255 bytes, as many as the next byte says.
    pub fn bytes(&mut self) -> &'a [u8] {
        let length = self.byte().min(self.0.len());
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        bytes
    }

    /// One of so many things, which are not none.
    pub fn choice(&mut self, count: usize) -> usize {
        self.byte() % count
    }
}

/// Changes `bytes` as the input says: some are replaced, cut off, or put in.
pub fn alter(bytes: &mut Vec<u8>, input: &mut Input) {
    let (kind, at) = (input.choice(4), input.two_bytes() % (bytes.len() + 1));
    match kind {
        0 => {
            let new = input.bytes();
            let end = (at + new.len()).min(bytes.len());
            bytes[at..end].copy_from_slice(&new[..end - at]);
        }
        1 => bytes.truncate(at),
        2 => drop(bytes.splice(at..at, input.bytes().iter().copied())),
        _ => {
            // Numbers that are at the edge of what numbers are.
            let edges = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, -1.0, 1e300, 5e-324, 0.0];
            let edge = edges[input.choice(edges.len())];
            let new: Vec<u8> = match input.choice(2) {
                0 => edge.to_le_bytes().to_vec(),
                _ => (edge as f32).to_le_bytes().to_vec(),
            };
            let end = (at + new.len()).min(bytes.len());
            bytes[at..end].copy_from_slice(&new[..end - at]);
        }
    }
}
