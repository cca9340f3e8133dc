//! The digest that a checkpoint carries of itself: BLAKE3 over every byte of the file, with zeros where the digest stands.

use blake3::Hasher;
use std::ops::Range;

/// What stands in the digest's place before there is one.
pub(super) const BLANK: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Writes the digest of a file over its blank one.
pub(super) fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let place = place(&bytes, BLANK).expect("the description has a blank digest, once");
    let digest = digest(&bytes, place.clone());
    bytes[place].copy_from_slice(digest.as_bytes());
    bytes
}

/// Whether this digest is the file's own.
pub(super) fn is_whole(bytes: &[u8], claimed: &str) -> bool {
    claimed.len() == BLANK.len() && place(bytes, claimed).is_some_and(|place| digest(bytes, place) == claimed)
}

/// The same file with the digest that belongs to its bytes as they are now.
pub(super) fn reseal(mut bytes: Vec<u8>, claimed: &str) -> Option<Vec<u8>> {
    let place = place(&bytes, claimed)?;
    bytes[place].copy_from_slice(BLANK.as_bytes());
    Some(seal(bytes))
}

/// Where a digest stands in the file's header; none unless it does so once.
fn place(bytes: &[u8], digest: &str) -> Option<Range<usize>> {
    let length = u64::from_le_bytes(*bytes.first_chunk::<8>()?);
    let header = bytes.get(8..usize::try_from(length).ok()?.checked_add(8)?)?;
    let mut found = header.windows(digest.len()).enumerate().filter(|(_, text)| *text == digest.as_bytes());
    let at = 8 + found.next()?.0;
    found.next().is_none().then_some(at..at + digest.len())
}

fn digest(bytes: &[u8], place: Range<usize>) -> String {
    let mut hasher = Hasher::new();
    hasher.update(&bytes[..place.start]).update(BLANK.as_bytes()).update(&bytes[place.end..]);
    hasher.finalize().to_hex().to_string()
}
