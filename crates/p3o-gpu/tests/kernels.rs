//! The embedded kernels are those of the source.

/// The checksum of POSIX `cksum`: a CRC over the bytes and then over their number.
fn cksum(bytes: &[u8]) -> u32 {
    let length = bytes.len().to_le_bytes();
    let used = length.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(
            crc ^ (u32::from(*byte) << 24),
            |crc, _| {
                if crc >> 31 == 1 { crc << 1 ^ 0x04C1_1DB7 } else { crc << 1 }
            },
        )
    };
    !bytes.iter().chain(&length[..used]).fold(0, step)
}

#[test]
fn the_kernels_were_made_from_the_source() {
    assert_eq!(cksum(b"123456789"), 930_766_865, "what cksum prints");
    let (source, made) = (include_bytes!("../kernels/p3o.cu"), include_str!("../kernels/p3o.ptx"));
    let claimed = made.lines().next().unwrap();
    let expected = format!("// p3o.cu {} {}", cksum(source), source.len());
    assert_eq!(claimed, expected, "kernels/p3o.ptx is older than kernels/p3o.cu: run tools/kernels");
}
