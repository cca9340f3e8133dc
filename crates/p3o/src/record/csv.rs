//! `progress.csv`: one row of numbers per update, readable while the run goes on and after any kill.
//!
//! The last field of a row, `check`, is a digest of the row and of the check before it, so that no number in the file can
//! change unnoticed. Over all columns but those of time there is one more digest, which a checkpoint keeps: it ties the rows to
//! the run, and does not depend on the machine.

use std::fmt::{Display, Write as _};
use std::io::{self, ErrorKind};
use std::path::Path;

use super::append::AppendFile;
use super::atomic::write_atomic;
use super::read::read_file;

/// The name of the last column.
const CHECK: &str = "check";
/// Columns that depend on the machine.
const TIMES: [&str; 2] = ["steps_per_s", "wall_s"];
/// No table is as large as this.
pub const MOST_BYTES: u64 = 1 << 32;

/// A table of numbers that grows row by row on disk.
///
/// Numbers are printed with as many digits as it takes to read the same number back, whole numbers without a
/// fraction, and NaN, which stands for "no value", as an empty field.
#[derive(Debug)]
pub struct ProgressCsv {
    file: AppendFile,
    /// For each column of the file which value of a row it gets; none for a column that is no longer written.
    places: Vec<Option<usize>>,
    values: usize,
    row: String,
    chain: Chain,
}

/// A table read back from disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The names in the header, from left to right, without `check`.
    pub columns: Vec<String>,
    /// The rows from top to bottom, each with one value per column; an empty field is NaN.
    pub rows: Vec<Vec<f64>>,
}

impl ProgressCsv {
    /// Starts a table with a header and no rows, replacing any file at `path`.
    ///
    /// Names must be neither empty nor contain a comma, a quote or a line break: fields are never quoted.
    pub fn create(path: &Path, columns: &[String]) -> io::Result<Self> {
        check_names(columns).map_err(|text| invalid(ErrorKind::InvalidInput, path, text))?;
        let header = format!("{},{CHECK}", columns.join(","));
        // A header is thus never partial, and a row, which may be, always has one to be read against.
        write_atomic(path, format!("{header}\n").as_bytes())?;
        Self::open(path, (0..columns.len()).map(Some).collect(), columns.len(), Chain::new(&header))
    }

    /// Continues a table after a kill or a stop with its first `rows` rows.
    ///
    /// All after them are dropped, and so is a partial last line; that some of them are missing is an error. The kept rows stay
    /// as they are, byte for byte. The header must be `columns`, but for columns that older versions wrote (`retired`): they stay
    /// in the file and are empty in new rows. Any other header is an error, and the file is left alone.
    pub fn reopen(path: &Path, columns: &[String], retired: &[&str], rows: usize) -> io::Result<Self> {
        let bytes = read_file(path, MOST_BYTES)?;
        let kept = kept(&bytes, columns, retired, rows).map_err(|text| invalid(ErrorKind::InvalidData, path, text))?;
        if kept.text.len() < bytes.len() {
            write_atomic(path, kept.text.as_bytes())?;
        }
        Self::open(path, kept.places, columns.len(), kept.chain)
    }

    fn open(path: &Path, places: Vec<Option<usize>>, values: usize, chain: Chain) -> io::Result<Self> {
        Ok(Self { file: AppendFile::open(path)?, row: String::with_capacity(32 * places.len()), places, values, chain })
    }

    /// Appends one row with a single write, so that a kill leaves at most one partial last line.
    pub fn append(&mut self, values: &[f64]) -> io::Result<()> {
        if values.len() != self.values {
            let text = format!("a row of {} values does not fit {} columns", values.len(), self.values);
            return Err(invalid(ErrorKind::InvalidInput, self.file.path(), text));
        }
        self.row.clear();
        write_values(&mut self.row, self.places.iter().map(|place| place.map_or(f64::NAN, |place| values[place])));
        let mut chain = self.chain.clone();
        if let Some(check) = chain.take(&self.row) {
            self.row.push(',');
            self.row.push_str(&check);
        }
        self.row.push('\n');
        self.file.append(self.row.as_bytes())?;
        self.chain = chain;
        Ok(())
    }

    /// Waits until all rows are on disk, so that a checkpoint saved next never outlives its own rows in a power cut.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    /// The digest of the table, but for its columns of time.
    pub fn digest(&self) -> String {
        self.chain.digest()
    }

    /// Reads a table; a partial last line, left by a kill or by a run that is writing just now, is passed over. A row that does
    /// not fit its check is an error.
    pub fn read(path: &Path) -> io::Result<Table> {
        let bytes = read_file(path, MOST_BYTES)?;
        let table = parse_progress(&bytes, 0).map(|(table, _)| table);
        table.map_err(|text| invalid(ErrorKind::InvalidData, path, text))
    }

    /// Writes a whole table at once, replacing any file at `path`: what [`create`](Self::create) and
    /// [`append`](Self::append) would have written.
    pub fn write(path: &Path, table: &Table) -> io::Result<()> {
        check_names(&table.columns).map_err(|text| invalid(ErrorKind::InvalidInput, path, text))?;
        let mut text = format!("{},{CHECK}", table.columns.join(","));
        let mut chain = Chain::new(&text);
        text.push('\n');
        let mut line = String::new();
        for row in &table.rows {
            line.clear();
            write_values(&mut line, row.iter().copied());
            text += &line;
            text.extend(chain.take(&line).map(|check| format!(",{check}\n")));
        }
        write_atomic(path, text.as_bytes())
    }

    /// Writes the checks of all whole rows anew, as if the table had always been as it is now; returns the number of rows that
    /// did not fit theirs.
    pub fn reseal(path: &Path) -> io::Result<usize> {
        let bytes = read_file(path, MOST_BYTES)?;
        let (text, altered) = resealed(&bytes).map_err(|text| invalid(ErrorKind::InvalidData, path, text))?;
        if altered > 0 {
            write_atomic(path, text.as_bytes())?;
        }
        Ok(altered)
    }
}

impl Table {
    /// The position of the column called `name`.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// The same rows with those columns alone that are wanted.
    pub fn with(&self, is_wanted: &dyn Fn(&str) -> bool) -> Table {
        let places: Vec<usize> = (0..self.columns.len()).filter(|&i| is_wanted(&self.columns[i])).collect();
        let rows = self.rows.iter().map(|row| places.iter().map(|&i| row[i]).collect());
        Table { columns: places.iter().map(|&i| self.columns[i].clone()).collect(), rows: rows.collect() }
    }
}

/// Adds numbers to a line, with commas between them.
fn write_values(line: &mut String, values: impl Iterator<Item = f64>) {
    for (index, value) in values.enumerate() {
        if index > 0 {
            line.push(',');
        }
        if !value.is_nan() {
            let _ = write!(line, "{value}");
        }
    }
}

/// Follows a table from its header on, row by row.
#[derive(Clone, Debug)]
struct Chain {
    /// The last check; none in a table of an older version, which has no such column.
    check: Option<String>,
    /// Whether each column depends on the machine.
    timed: Vec<bool>,
    digest: blake3::Hasher,
}

impl Chain {
    fn new(header: &str) -> Self {
        let timed = |name: &str| TIMES.contains(&name);
        let (names, checked) = match header.strip_suffix(CHECK).and_then(|names| names.strip_suffix(',')) {
            Some(names) => (names, true),
            None => (header, false),
        };
        let timed = names.split(',').map(timed).collect();
        let mut chain = Chain { check: checked.then(String::new), timed, digest: blake3::Hasher::new() };
        chain.take(names);
        chain
    }

    /// Takes in a line without its check; returns the check that belongs to it.
    fn take(&mut self, line: &str) -> Option<String> {
        for (field, _) in line.split(',').zip(&self.timed).filter(|(_, timed)| !**timed) {
            self.digest.update(field.as_bytes());
            self.digest.update(b",");
        }
        self.digest.update(b"\n");
        let before = self.check.as_mut()?;
        let digest = blake3::Hasher::new().update(before.as_bytes()).update(line.as_bytes()).finalize();
        *before = digest.to_hex()[..16].to_string();
        self.check.clone()
    }

    fn digest(&self) -> String {
        self.digest.finalize().to_hex().to_string()
    }

    /// A row as it stands in the file; `number` is its line. It must have as many numbers as there are columns, and the check
    /// that belongs to it.
    fn read(&mut self, line: &str, number: usize) -> Result<Vec<f64>, String> {
        let (numbers, check) = self.split(line, number)?;
        let row = parse_row(numbers, number, self.timed.len())?;
        if self.take(numbers).as_deref() != check {
            return Err(format!("line {number} was altered: it does not fit its check"));
        }
        Ok(row)
    }

    /// The numbers of a row and its check.
    fn split<'a>(&self, line: &'a str, number: usize) -> Result<(&'a str, Option<&'a str>), String> {
        if self.check.is_none() {
            return Ok((line, None));
        }
        let (numbers, check) = line.rsplit_once(',').ok_or_else(|| format!("line {number} has no check"))?;
        Ok((numbers, Some(check)))
    }
}

fn invalid(kind: ErrorKind, path: &Path, text: impl Display) -> io::Error {
    io::Error::new(kind, format!("{}: {text}", path.display()))
}

fn check_names(columns: &[String]) -> Result<(), String> {
    if columns.is_empty() {
        return Err("a table needs at least one column".to_owned());
    }
    let forbidden = |name: &&String| name.is_empty() || *name == CHECK || name.contains([',', '"', '\n', '\r']);
    match columns.iter().find(forbidden) {
        Some(name) => {
            Err(format!("{name:?} cannot name a column: it is empty, `{CHECK}`, or holds a comma, quote or line break"))
        }
        None => Ok(()),
    }
}

/// The table in a file's bytes, and the digest that it had after so many rows; if there are fewer, that of none.
pub fn parse_progress(bytes: &[u8], rows: usize) -> Result<(Table, String), String> {
    let (header, body) = split_header(whole_lines(bytes)?)?;
    let mut chain = Chain::new(header);
    let columns = header.split(',').take(chain.timed.len()).map(str::to_owned).collect();
    let mut table = Table { columns, rows: Vec::new() };
    let mut digest = chain.digest();
    for (index, line) in body.lines().enumerate() {
        table.rows.push(chain.read(line, index + 2)?);
        if index + 1 == rows {
            digest = chain.digest();
        }
    }
    Ok((table, digest))
}

/// Whether the rows of a table carry checks; those of older versions do not.
pub fn has_checks(bytes: &[u8]) -> bool {
    let header = whole_lines(bytes).and_then(split_header);
    header.is_ok_and(|(header, _)| Chain::new(header).check.is_some())
}

/// What a resumed run keeps of a table.
struct Kept<'a> {
    /// The start of the file.
    text: &'a str,
    /// For each column of the file its place among the run's.
    places: Vec<Option<usize>>,
    chain: Chain,
}

fn kept<'a>(bytes: &'a [u8], columns: &[String], retired: &[&str], rows: usize) -> Result<Kept<'a>, String> {
    let text = whole_lines(bytes)?;
    let (header, body) = split_header(text)?;
    let mut chain = Chain::new(header);
    let names: Vec<&str> = header.split(',').take(chain.timed.len()).collect();
    let place = |name: &str| columns.iter().position(|column| column == name);
    let places: Vec<Option<usize>> = names.iter().map(|name| place(name)).collect();
    let known = names.iter().filter(|name| place(name).is_some() || !retired.contains(name));
    if !known.eq(columns.iter()) {
        return Err(format!(
            "the header is not the one this run would write, so the table cannot be continued (in the file: {header}; \
             this run: {})",
            columns.join(",")
        ));
    }
    let mut end = text.len() - body.len();
    let mut lines = body.split_inclusive('\n').enumerate();
    for made in 0..rows {
        let Some((index, line)) = lines.next() else {
            return Err(format!("it has {made} rows, and the checkpoint was saved after {rows}: rows are missing"));
        };
        chain.read(line.trim_end_matches('\n'), index + 2)?;
        end += line.len();
    }
    Ok(Kept { text: &text[..end], places, chain })
}

/// The table with the checks that belong to its rows, and how many were others.
fn resealed(bytes: &[u8]) -> Result<(String, usize), String> {
    let text = whole_lines(bytes)?;
    let (header, body) = split_header(text)?;
    let mut chain = Chain::new(header);
    let (mut sealed, mut altered) = (format!("{header}\n"), 0);
    for (index, line) in body.lines().enumerate() {
        let (numbers, check) = chain.split(line, index + 2)?;
        parse_row(numbers, index + 2, chain.timed.len())?;
        let due = chain.take(numbers);
        altered += usize::from(due.as_deref() != check);
        sealed += numbers;
        sealed.extend(due.map(|due| format!(",{due}")));
        sealed.push('\n');
    }
    Ok((sealed, altered))
}

/// Everything up to the last line break: what follows it is a row that was not written to its end.
fn whole_lines(bytes: &[u8]) -> Result<&str, String> {
    let end = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
    str::from_utf8(&bytes[..end]).map_err(|error| format!("not a text file: {error}"))
}

fn split_header(text: &str) -> Result<(&str, &str), String> {
    text.split_once('\n').ok_or_else(|| "no header line".to_owned())
}

fn parse_row(line: &str, number: usize, columns: usize) -> Result<Vec<f64>, String> {
    let fields = line.split(',').map(|field| match field {
        "" => Ok(f64::NAN),
        _ => field.parse().map_err(|_| format!("line {number}: {field:?} is not a number")),
    });
    let row: Vec<f64> = fields.collect::<Result<_, _>>()?;
    if row.len() != columns {
        return Err(format!("line {number}: {} values under {columns} columns", row.len()));
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, OpenOptions};
    use std::io::Write;
    use std::path::PathBuf;

    fn names(columns: &[&str]) -> Vec<String> {
        columns.iter().map(|&name| name.to_owned()).collect()
    }

    /// A table `update,loss` with rows 1 to 4, and then the bytes of `tail`.
    fn four_rows(folder: &Path, tail: &[u8]) -> PathBuf {
        let path = folder.join("progress.csv");
        let mut csv = ProgressCsv::create(&path, &names(&["update", "loss"])).unwrap();
        for update in 1..=4 {
            csv.append(&[f64::from(update), f64::from(update) / 8.0]).unwrap();
        }
        csv.sync().unwrap();
        OpenOptions::new().append(true).open(&path).unwrap().write_all(tail).unwrap();
        path
    }

    fn text(path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn prints_whole_numbers_bare_and_nan_as_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("progress.csv");
        let mut csv = ProgressCsv::create(&path, &names(&["step", "a", "b"])).unwrap();
        csv.append(&[30720.0, 0.1, f64::NAN]).unwrap();
        csv.append(&[61440.0, f64::NEG_INFINITY, -2.5]).unwrap();
        assert_eq!(text(&path), "step,a,b,check\n30720,0.1,,ebd83eb9fca9357f\n61440,-inf,-2.5,6b80fd12cf0e6672\n");
    }

    #[test]
    fn every_number_reads_back_as_the_same_bits() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("progress.csv");
        let values = [0.1 + 0.2, 1.0 / 3.0, -0.0, f64::MIN_POSITIVE, 5e-324, f64::MAX, 9_007_199_254_740_993.0];
        let columns: Vec<String> = (0..values.len()).map(|index| format!("c{index}")).collect();
        let mut csv = ProgressCsv::create(&path, &columns).unwrap();
        csv.append(&values).unwrap();
        csv.append(&[f64::NAN; 7]).unwrap();
        let table = ProgressCsv::read(&path).unwrap();
        assert_eq!(table.columns, columns);
        assert_eq!(table.column("c3"), Some(3));
        assert_eq!(table.column("c9"), None);
        assert_eq!(table.rows.len(), 2);
        for (read, written) in table.rows[0].iter().zip(values) {
            assert_eq!(read.to_bits(), written.to_bits());
        }
        assert!(table.rows[1].iter().all(|value| value.is_nan()));
    }

    #[test]
    fn a_table_written_at_once_has_the_bytes_of_one_that_grew() {
        let folder = tempfile::tempdir().unwrap();
        let path = four_rows(folder.path(), b"");
        let again = folder.path().join("again.csv");
        let mut table = ProgressCsv::read(&path).unwrap();
        ProgressCsv::write(&again, &table).unwrap();
        assert_eq!(text(&again), text(&path));
        table.rows[1][1] = f64::NAN;
        let losses = table.with(&|name| name == "loss");
        assert_eq!((losses.columns.len(), losses.rows[2][0]), (1, 0.375));
        ProgressCsv::write(&again, &losses).unwrap();
        let read = ProgressCsv::read(&again).unwrap();
        assert!(read.rows[1][0].is_nan() && read.rows[3] == [0.5]);
        assert!(ProgressCsv::write(&again, &table.with(&|_| false)).is_err(), "a table has columns");
    }

    #[test]
    fn reading_passes_over_a_partial_last_line() {
        let folder = tempfile::tempdir().unwrap();
        // `5,0.6` looks whole, but was to be `5,0.625`: only the line break tells.
        let table = ProgressCsv::read(&four_rows(folder.path(), b"5,0.6")).unwrap();
        assert_eq!(table.rows, [[1.0, 0.125], [2.0, 0.25], [3.0, 0.375], [4.0, 0.5]]);
    }

    #[test]
    fn reopening_drops_the_partial_line_and_all_rows_after_those_it_is_to_keep() {
        let folder = tempfile::tempdir().unwrap();
        let path = four_rows(folder.path(), b"5,0.6");
        let columns = names(&["update", "loss"]);
        let whole = text(&path);
        let start = |lines: usize| whole.split_inclusive('\n').take(lines).collect::<String>();
        let mut csv = ProgressCsv::reopen(&path, &columns, &[], 2).unwrap();
        assert_eq!(text(&path), start(3));
        csv.append(&[3.0, 0.375]).unwrap();
        csv.append(&[4.0, 0.5]).unwrap();
        assert_eq!(text(&path), start(5), "the same rows have the same checks");
        drop(csv);
        ProgressCsv::reopen(&path, &columns, &[], 0).unwrap();
        assert_eq!(text(&path), start(1));
        let error = ProgressCsv::reopen(&path, &columns, &[], 1).unwrap_err();
        assert!(error.to_string().ends_with("it has 0 rows, and the checkpoint was saved after 1: rows are missing"));
    }

    #[test]
    fn reopening_a_whole_table_keeps_every_byte() {
        let folder = tempfile::tempdir().unwrap();
        let path = four_rows(folder.path(), b"");
        let before = text(&path);
        let mut csv = ProgressCsv::reopen(&path, &names(&["update", "loss"]), &[], 4).unwrap();
        csv.append(&[5.0, 0.625]).unwrap();
        assert!(text(&path).starts_with(&(before + "5,0.625,")));
        assert_eq!(ProgressCsv::read(&path).unwrap().rows[4], [5.0, 0.625]);
    }

    #[test]
    fn any_altered_character_of_a_row_shows() {
        let folder = tempfile::tempdir().unwrap();
        let path = four_rows(folder.path(), b"");
        let whole = fs::read(&path).unwrap();
        let header = whole.iter().position(|&byte| byte == b'\n').unwrap();
        for at in header + 1..whole.len() - 1 {
            for bit in 0..7 {
                let mut altered = whole.clone();
                altered[at] ^= 1 << bit;
                assert!(parse_progress(&altered, 0).is_err(), "bit {bit} of byte {at}");
            }
        }
        // A row that is gone, one that is doubled, two that have changed places.
        let lines: Vec<&[u8]> = whole.split_inclusive(|&byte| byte == b'\n').collect();
        for order in [&[0, 2, 3, 4][..], &[0, 1, 1, 2, 3, 4], &[0, 2, 1, 3, 4], &[0, 1, 2, 4]] {
            let altered: Vec<u8> = order.iter().flat_map(|&line| lines[line]).copied().collect();
            assert!(parse_progress(&altered, 0).unwrap_err().contains("was altered"), "{order:?}");
        }
    }

    #[test]
    fn the_digest_is_that_of_the_numbers_without_the_times() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("progress.csv");
        let digest = |rows: &[[f64; 3]]| {
            let mut csv = ProgressCsv::create(&path, &names(&["update", "wall_s", "loss"])).unwrap();
            rows.iter().for_each(|row| csv.append(row).unwrap());
            let (table, read) = parse_progress(&fs::read(&path).unwrap(), rows.len()).unwrap();
            assert_eq!((table.rows.len(), &read), (rows.len(), &csv.digest()));
            read
        };
        let one = digest(&[[1.0, 0.5, 3.0], [2.0, 0.75, 4.0]]);
        assert_eq!(digest(&[[1.0, 9.0, 3.0], [2.0, 9.5, 4.0]]), one);
        assert_ne!(digest(&[[1.0, 0.5, 3.0], [2.0, 0.75, 4.5]]), one);
        assert_ne!(digest(&[[1.0, 0.5, 3.0]]), one);
        assert_ne!(digest(&[]), one);
    }

    #[test]
    fn resealing_takes_rows_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = four_rows(folder.path(), b"5,0.6");
        let whole = text(&path);
        assert_eq!(ProgressCsv::reseal(&path).unwrap(), 0);
        assert_eq!(text(&path), whole);
        fs::write(&path, whole.replace("2,0.25,", "2,0.75,")).unwrap();
        assert!(ProgressCsv::read(&path).is_err());
        assert_eq!(ProgressCsv::reseal(&path).unwrap(), 3, "the row and the two that stand on it");
        assert_eq!(ProgressCsv::read(&path).unwrap().rows[1..3], [[2.0, 0.75], [3.0, 0.375]]);
        fs::write(&path, whole.replace("2,0.25,", "2,x,")).unwrap();
        assert!(ProgressCsv::reseal(&path).unwrap_err().to_string().ends_with("line 3: \"x\" is not a number"));
    }

    #[test]
    fn a_table_of_an_older_version_goes_on_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("progress.csv");
        fs::write(&path, "update,old,loss\n1,7,0.5\n").unwrap();
        let mut csv = ProgressCsv::reopen(&path, &names(&["update", "loss"]), &["old"], 1).unwrap();
        csv.append(&[2.0, 0.25]).unwrap();
        assert_eq!(text(&path), "update,old,loss\n1,7,0.5\n2,,0.25\n");
        assert!(ProgressCsv::reopen(&path, &names(&["update", "loss"]), &[], 1).is_err());
    }

    #[test]
    fn another_header_is_an_error_and_the_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = four_rows(folder.path(), b"5,");
        let before = text(&path);
        let error = ProgressCsv::reopen(&path, &names(&["update", "cost"]), &[], 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        let told = error.to_string();
        assert!(
            told.contains("progress.csv") && told.contains("update,loss") && told.contains("update,cost"),
            "{told}"
        );
        assert_eq!(text(&path), before);
    }

    #[test]
    fn damaged_tables_are_errors_that_name_the_line() {
        let folder = tempfile::tempdir().unwrap();
        let error = ProgressCsv::read(&four_rows(folder.path(), b"5,x,0\n")).unwrap_err();
        assert!(error.to_string().ends_with("line 6: \"x\" is not a number"), "{error}");
        let error = ProgressCsv::read(&four_rows(folder.path(), b"5,0\n")).unwrap_err();
        assert!(error.to_string().ends_with("line 6: 1 values under 2 columns"), "{error}");
        let error = ProgressCsv::read(&four_rows(folder.path(), b"5\n")).unwrap_err();
        assert!(error.to_string().ends_with("line 6 has no check"), "{error}");

        let path = folder.path().join("headless");
        fs::write(&path, "update,lo").unwrap();
        assert!(ProgressCsv::read(&path).unwrap_err().to_string().ends_with("no header line"));
        let missing = folder.path().join("missing");
        assert_eq!(ProgressCsv::read(&missing).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn rows_and_names_that_do_not_fit_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("progress.csv");
        for columns in [&[][..], &["a,b"], &["a", ""], &["a\nb"], &["\"a\""], &["check"]] {
            assert_eq!(ProgressCsv::create(&path, &names(columns)).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
        let mut csv = ProgressCsv::create(&path, &names(&["a", "b"])).unwrap();
        assert!(csv.append(&[1.0]).unwrap_err().to_string().contains("1 values does not fit 2 columns"));
        assert_eq!(text(&path), "a,b,check\n");
    }
}
