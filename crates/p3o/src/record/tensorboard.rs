//! Scalars for TensorBoard, written without its libraries.
//!
//! An event file is a sequence of records, each framed as
//!
//! ```text
//! length: u64 | masked crc32c of the length: u32 | data: length bytes | masked crc32c of the data: u32
//! ```
//!
//! in little-endian order. The data of a record is a protocol-buffer `Event`; the field numbers below are those of
//! TensorFlow's `event.proto` and `summary.proto`.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::append::AppendFile;
use super::atomic::failed;
use super::protobuf::{FIXED_64, LENGTH_DELIMITED, put_bytes, put_float, put_key, put_number, put_varint, varint_len};

const EVENT_WALL_TIME: u64 = 1;
const EVENT_STEP: u64 = 2;
const EVENT_FILE_VERSION: u64 = 3;
const EVENT_SUMMARY: u64 = 5;
const EVENT_SESSION_LOG: u64 = 7;
const SUMMARY_VALUE: u64 = 1;
const VALUE_TAG: u64 = 1;
const VALUE_SIMPLE_VALUE: u64 = 2;
const SESSION_LOG_STATUS: u64 = 1;
const STATUS_START: u64 = 1;

/// The length and its checksum, which stand before the data of a record.
const FRAME_HEAD: usize = 12;

/// Appends scalars to one new TensorBoard event file.
#[derive(Debug)]
pub struct EventWriter {
    file: AppendFile,
    record: Vec<u8>,
    summary: Vec<u8>,
}

impl EventWriter {
    /// Starts an event file in `dir`, which is created if it does not exist.
    ///
    /// A run that continues from a checkpoint gives that checkpoint's step as `resumed_at`: TensorBoard then forgets
    /// the points after that step which earlier files in the folder hold, and keeps the one at it. Without it all
    /// points of earlier files are forgotten.
    pub fn create(dir: &Path, resumed_at: Option<u64>) -> io::Result<Self> {
        fs::create_dir_all(dir).map_err(|error| failed("create", dir, &error))?;
        let now = since_epoch();
        // TensorBoard reads the files of a folder in the order of their names: the fixed-width nanoseconds put a
        // file after those started earlier in the same second, and the process id tells apart any still alike.
        let (seconds, nanos) = (now.as_secs(), now.subsec_nanos());
        let name = format!("events.out.tfevents.{seconds}.{nanos:09}-{}.p3o", std::process::id());
        let file = AppendFile::create_new(&dir.join(name))?;
        let mut writer = Self { file, record: Vec::with_capacity(1024), summary: Vec::with_capacity(1024) };

        writer.start_event(0);
        put_bytes(&mut writer.record, EVENT_FILE_VERSION, b"brain.Event:2");
        writer.finish_event()?;
        // The first start in a folder is taken for the beginning and purges nothing, so every file needs its own. Any
        // later one purges what is at or after its step, and the point of the checkpoint itself is to stay.
        writer.start_event(resumed_at.map_or(0, |step| step.saturating_add(1)));
        put_key(&mut writer.record, EVENT_SESSION_LOG, LENGTH_DELIMITED);
        put_varint(&mut writer.record, 2);
        put_number(&mut writer.record, SESSION_LOG_STATUS, STATUS_START);
        writer.finish_event()?;
        Ok(writer)
    }

    /// Appends one point per value to the curves named by the tags, all at `step`, in a single write.
    ///
    /// Values are stored as `f32`. NaN stands for "no value" and adds no point.
    pub fn scalars(&mut self, step: u64, values: &[(&str, f64)]) -> io::Result<()> {
        self.summary.clear();
        for &(tag, value) in values.iter().filter(|(_, value)| !value.is_nan()) {
            // The tag's key, length and bytes, then the value's key and four bytes.
            let len = 1 + varint_len(tag.len() as u64) + tag.len() + 1 + 4;
            put_key(&mut self.summary, SUMMARY_VALUE, LENGTH_DELIMITED);
            put_varint(&mut self.summary, len as u64);
            put_bytes(&mut self.summary, VALUE_TAG, tag.as_bytes());
            put_float(&mut self.summary, VALUE_SIMPLE_VALUE, value as f32);
        }
        if self.summary.is_empty() {
            return Ok(());
        }
        self.start_event(step);
        put_bytes(&mut self.record, EVENT_SUMMARY, &self.summary);
        self.finish_event()
    }

    /// The file being written.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Leaves room for the head of the frame, which cannot be known yet, and begins the `Event`.
    fn start_event(&mut self, step: u64) {
        self.record.clear();
        self.record.resize(FRAME_HEAD, 0);
        put_key(&mut self.record, EVENT_WALL_TIME, FIXED_64);
        self.record.extend_from_slice(&since_epoch().as_secs_f64().to_le_bytes());
        put_number(&mut self.record, EVENT_STEP, step);
    }

    fn finish_event(&mut self) -> io::Result<()> {
        let (head, data) = self.record.split_at_mut(FRAME_HEAD);
        let len = (data.len() as u64).to_le_bytes();
        head[..8].copy_from_slice(&len);
        head[8..].copy_from_slice(&masked_crc32c(&len).to_le_bytes());
        let check = masked_crc32c(data).to_le_bytes();
        self.record.extend_from_slice(&check);
        self.file.append(&self.record)
    }
}

/// A clock set before 1970 counts as 1970: the time only labels points, and no run should fail over it.
fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The format stores checksums rotated and shifted, so that data holding its own checksum does not confuse the sum.
fn masked_crc32c(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xA282_EAD8)
}

fn crc32c(bytes: &[u8]) -> u32 {
    let rest = |crc: u32, &byte: &u8| crc >> 8 ^ CRC32C_TABLE[usize::from(crc as u8 ^ byte)];
    !bytes.iter().fold(!0, rest)
}

const CRC32C_TABLE: [u32; 256] = crc32c_table();

const fn crc32c_table() -> [u32; 256] {
    /// Castagnoli's polynomial, lowest power in the highest bit.
    const POLYNOMIAL: u32 = 0x82F6_3B78;
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq)]
    struct Event {
        wall_time: f64,
        step: u64,
        version: String,
        scalars: Vec<(String, f32)>,
        start: bool,
    }

    enum Field<'a> {
        Number(u64),
        Bytes(&'a [u8]),
    }

    fn take<'a>(input: &mut &'a [u8], len: usize) -> &'a [u8] {
        let (head, tail) = input.split_at(len);
        *input = tail;
        head
    }

    fn take_u32(input: &mut &[u8]) -> u32 {
        u32::from_le_bytes(take(input, 4).try_into().unwrap())
    }

    fn take_varint(input: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let byte = take(input, 1)[0];
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                break;
            }
        }
        value
    }

    fn fields(mut input: &[u8]) -> Vec<(u64, Field<'_>)> {
        let mut fields = Vec::new();
        while !input.is_empty() {
            let key = take_varint(&mut input);
            let field = match key & 7 {
                0 => Field::Number(take_varint(&mut input)),
                1 => Field::Bytes(take(&mut input, 8)),
                2 => {
                    let len = take_varint(&mut input);
                    Field::Bytes(take(&mut input, len as usize))
                }
                5 => Field::Bytes(take(&mut input, 4)),
                other => panic!("wire type {other}"),
            };
            fields.push((key >> 3, field));
        }
        fields
    }

    fn scalar(value: &[u8]) -> (String, f32) {
        match fields(value)[..] {
            [(1, Field::Bytes(tag)), (2, Field::Bytes(number))] => {
                (String::from_utf8(tag.to_vec()).unwrap(), f32::from_le_bytes(number.try_into().unwrap()))
            }
            _ => panic!("not a tag and a simple value"),
        }
    }

    fn event(data: &[u8]) -> Event {
        let mut event = Event::default();
        for field in fields(data) {
            match field {
                (1, Field::Bytes(time)) => event.wall_time = f64::from_le_bytes(time.try_into().unwrap()),
                (2, Field::Number(step)) => event.step = step,
                (3, Field::Bytes(version)) => event.version = String::from_utf8(version.to_vec()).unwrap(),
                (5, Field::Bytes(summary)) => {
                    for value in fields(summary) {
                        let (1, Field::Bytes(value)) = value else { panic!("not a summary value") };
                        event.scalars.push(scalar(value));
                    }
                }
                (7, Field::Bytes(log)) => event.start = matches!(fields(log)[..], [(1, Field::Number(1))]),
                (other, _) => panic!("field {other}"),
            }
        }
        event
    }

    /// All events of a file, with every length and checksum verified.
    fn events(path: &Path) -> Vec<Event> {
        let bytes = fs::read(path).unwrap();
        let mut input = &bytes[..];
        let mut events = Vec::new();
        while !input.is_empty() {
            let len = take(&mut input, 8);
            assert_eq!(take_u32(&mut input), masked_crc32c(len));
            let data = take(&mut input, u64::from_le_bytes(len.try_into().unwrap()) as usize);
            assert_eq!(take_u32(&mut input), masked_crc32c(data));
            events.push(event(data));
        }
        events
    }

    #[test]
    fn crc32c_matches_known_vectors() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        // RFC 3720, appendix B.4.
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
        assert_eq!(crc32c(&std::array::from_fn::<u8, 32, _>(|i| i as u8)), 0x46DD_794E);
        assert_eq!(crc32c(b""), 0);
    }

    #[test]
    fn the_first_record_frames_the_version_as_every_event_file_does() {
        let folder = tempfile::tempdir().unwrap();
        let writer = EventWriter::create(folder.path(), None).unwrap();
        let bytes = fs::read(writer.path()).unwrap();
        // Time 1 + 8, step 1 + 1 and version 1 + 1 + 13 bytes: 26 in all, in a frame of 12 + 4. Then the start: time 9,
        // step 2 and session log 1 + 1 + 2, in another frame.
        assert_eq!(bytes.len(), 42 + 31);
        assert_eq!(bytes[..8], 26u64.to_le_bytes());
        assert_eq!(bytes[12], 0x09);
        assert_eq!(bytes[21..38], *b"\x10\x00\x1A\x0Dbrain.Event:2");
    }

    #[test]
    fn varint_lengths_count_the_bytes_written() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            assert_eq!(varint_len(value), bytes.len(), "{value}");
            assert_eq!(take_varint(&mut &bytes[..]), value);
        }
    }

    #[test]
    fn scalars_read_back_with_their_tags_and_steps() {
        let folder = tempfile::tempdir().unwrap();
        let long = "x".repeat(200);
        let mut writer = EventWriter::create(&folder.path().join("made/here"), None).unwrap();
        writer.scalars(0, &[("episode/return", 1.5), ("episode/cost", -0.1)]).unwrap();
        writer.scalars(30_720_000_000, &[(&long, f64::INFINITY), ("loss/κ", f64::NAN), ("", 1e-3)]).unwrap();
        writer.scalars(5, &[("gap", f64::NAN)]).unwrap();

        let events = events(writer.path());
        assert_eq!(events.len(), 4);
        assert_eq!(events[0].version, "brain.Event:2");
        assert!(events[1].start);
        assert_eq!(events[2].step, 0);
        assert_eq!(events[2].scalars, [("episode/return".to_owned(), 1.5), ("episode/cost".to_owned(), -0.1)]);
        assert_eq!(events[3].step, 30_720_000_000);
        assert_eq!(events[3].scalars, [(long, f32::INFINITY), (String::new(), 1e-3)]);
        assert!(events.iter().all(|event| event.wall_time > 1.6e9));
    }

    #[test]
    fn a_resumed_file_opens_with_a_start_after_the_checkpoint() {
        let folder = tempfile::tempdir().unwrap();
        let first = EventWriter::create(folder.path(), None).unwrap();
        let mut resumed = EventWriter::create(folder.path(), Some(1000)).unwrap();
        resumed.scalars(1001, &[("loss", 2.0)]).unwrap();
        assert!(first.path() < resumed.path(), "TensorBoard would read the files in the wrong order");
        let events = events(resumed.path());
        assert_eq!(events.len(), 3);
        assert_eq!((events[1].start, events[1].step), (true, 1001));
        assert_eq!((events[2].start, events[2].step), (false, 1001));
    }

    #[test]
    fn nothing_is_allocated_after_the_first_call() {
        let folder = tempfile::tempdir().unwrap();
        let tags: Vec<String> = (0..100).map(|index| format!("some/longer/tag/{index}")).collect();
        let values: Vec<(&str, f64)> = tags.iter().map(|tag| (tag.as_str(), 1.0)).collect();
        let mut writer = EventWriter::create(folder.path(), None).unwrap();
        writer.scalars(u64::MAX >> 1, &values).unwrap();
        let buffers = |writer: &EventWriter| (writer.record.as_ptr(), writer.summary.as_ptr());
        let before = buffers(&writer);
        for step in 0..10 {
            writer.scalars(step, &values).unwrap();
        }
        assert_eq!(buffers(&writer), before);
    }
}
