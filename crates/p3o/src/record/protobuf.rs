//! The few parts of the protocol-buffer encoding that TensorBoard's and ONNX's files need.

pub(crate) const VARINT: u64 = 0;
pub(crate) const FIXED_64: u64 = 1;
pub(crate) const LENGTH_DELIMITED: u64 = 2;
pub(crate) const FIXED_32: u64 = 5;

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn varint_len(value: u64) -> usize {
    // Seven bits a byte, and one byte for zero.
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

pub(crate) fn put_key(out: &mut Vec<u8>, field: u64, wire_type: u64) {
    put_varint(out, field << 3 | wire_type);
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    put_key(out, field, LENGTH_DELIMITED);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(crate) fn put_number(out: &mut Vec<u8>, field: u64, value: u64) {
    put_key(out, field, VARINT);
    put_varint(out, value);
}

pub(crate) fn put_float(out: &mut Vec<u8>, field: u64, value: f32) {
    put_key(out, field, FIXED_32);
    out.extend_from_slice(&value.to_le_bytes());
}
