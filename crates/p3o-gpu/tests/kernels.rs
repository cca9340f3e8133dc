//! The embedded kernels are those of the sources.

use std::path::Path;

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

/// A source, and behind it the headers that it names.
fn whole(source: &Path) -> Vec<u8> {
    let mut all = std::fs::read_to_string(source).unwrap();
    let named = |line: &str| Some(line.strip_prefix("#include \"")?.strip_suffix('"')?.to_string());
    let headers: Vec<String> = all.lines().filter_map(named).collect();
    headers.iter().for_each(|header| all += &std::fs::read_to_string(source.with_file_name(header)).unwrap());
    all.into_bytes()
}

#[test]
fn the_kernels_were_made_from_the_sources() {
    assert_eq!(cksum(b"123456789"), 930_766_865, "what cksum prints");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
    let sums = std::fs::read_to_string(folder.join("sources.sums")).unwrap();
    let sources = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let sources: Vec<_> = sources.filter(|path| path.extension().is_some_and(|end| end == "cu")).collect();
    assert_eq!(sources.len(), sums.lines().count());
    for source in sources {
        let (name, text) = (source.file_name().unwrap().to_str().unwrap(), whole(&source));
        let expected = format!("{name} {} {}", cksum(&text), text.len());
        assert!(sums.lines().any(|line| line == expected), "the kernels are older than {name}: run tools/kernels");
        assert!(source.with_extension("fatbin").is_file());
    }
}
