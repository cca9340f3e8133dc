//! A short number for many bytes.

/// The 64-bit FNV-1a hash of all parts, one after another. Where the parts are divided does not matter.
///
/// It detects damage and gives short names; it does not protect against forgery.
pub fn fnv1a<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let bytes = parts.into_iter().flatten();
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::fnv1a;

    #[test]
    fn the_published_values() {
        assert_eq!(fnv1a([]), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a([&b"foo"[..], b"bar"]), 0x8594_4171_f739_67e8);
        assert_eq!(fnv1a([&b"f"[..], b"", b"oobar"]), 0x8594_4171_f739_67e8);
    }
}
