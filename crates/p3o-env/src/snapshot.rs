//! Sealed bytes: a state with a header that says which world it belongs to, and a checksum that detects damage.
//!
//! Layout: 4 bytes `P3OS`, 2 bytes format version, 8 bytes checksum of all that follows ([`fnv1a`]), then the name of
//! the kind of world and the state itself, both encoded with `postcard`. Numbers are little-endian, so a snapshot can
//! be moved between machines.

use serde::{Serialize, de::DeserializeOwned};

use crate::{RestoreError, fnv1a};

const MAGIC: [u8; 4] = *b"P3OS";
const VERSION: u16 = 1;
const HEADER: usize = 14;

/// The state of a world of this `kind` as bytes that [`open`] recognises.
pub fn seal<T: Serialize>(kind: &str, state: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&[0; 8]);
    let bytes = postcard::to_extend(kind, bytes).expect("a string always has a postcard form");
    let mut bytes = postcard::to_extend(state, bytes).expect("plain states always have a postcard form");
    let sum = fnv1a([&bytes[HEADER..]]);
    bytes[6..HEADER].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// The state that [`seal`] put into `bytes`, if it was sealed for the same `kind` and is undamaged.
pub fn open<T: DeserializeOwned>(kind: &str, bytes: &[u8]) -> Result<T, RestoreError> {
    let fail = |reason: String| RestoreError { task: kind.to_owned(), reason };
    if bytes.len() < HEADER || bytes[..4] != MAGIC {
        return Err(fail("these bytes are not a snapshot".to_owned()));
    }
    let version = u16::from_le_bytes([bytes[4], bytes[5]]);
    if version != VERSION {
        return Err(fail(format!("it has format version {version}, this build reads {VERSION}")));
    }
    if fnv1a([&bytes[HEADER..]]).to_le_bytes() != bytes[6..HEADER] {
        return Err(fail("it is damaged (its checksum differs)".to_owned()));
    }
    let unreadable = |e: postcard::Error| fail(format!("its contents cannot be read ({e})"));
    let (owner, rest) = postcard::take_from_bytes::<String>(&bytes[HEADER..]).map_err(unreadable)?;
    if owner != kind {
        return Err(fail(format!("it belongs to {owner}")));
    }
    let (state, rest) = postcard::take_from_bytes::<T>(rest).map_err(unreadable)?;
    if !rest.is_empty() {
        return Err(fail(format!("it has {} bytes too many", rest.len())));
    }
    Ok(state)
}
