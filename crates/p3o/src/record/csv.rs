//! `progress.csv`: one row of numbers per update, readable while the run goes on and after any kill.

use std::fmt::Display;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use super::append::AppendFile;
use super::atomic::{failed, write_atomic};

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
    row: Vec<u8>,
}

/// A table read back from disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The names in the header, from left to right.
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
        let mut header = columns.join(",");
        header.push('\n');
        // A header is thus never partial, and a row, which may be, always has one to be read against.
        write_atomic(path, header.as_bytes())?;
        Self::open(path, (0..columns.len()).map(Some).collect(), columns.len())
    }

    /// Continues a table after a kill or a stop: rows are kept up to the first for which `keep` is false.
    ///
    /// That row and all after it are dropped, and so is a partial last line. The kept rows stay as they are, byte for
    /// byte. The header must be `columns`, but for columns that older versions wrote (`retired`): they stay in the file and are
    /// empty in new rows. Any other header is an error, and the file is left alone.
    pub fn reopen(
        path: &Path,
        columns: &[String],
        retired: &[&str],
        keep: impl Fn(&[f64]) -> bool,
    ) -> io::Result<Self> {
        let bytes = fs::read(path).map_err(|error| failed("read", path, &error))?;
        let (kept, places) =
            kept_text(&bytes, columns, retired, keep).map_err(|text| invalid(ErrorKind::InvalidData, path, text))?;
        if kept.len() < bytes.len() {
            write_atomic(path, kept.as_bytes())?;
        }
        Self::open(path, places, columns.len())
    }

    fn open(path: &Path, places: Vec<Option<usize>>, values: usize) -> io::Result<Self> {
        Ok(Self { file: AppendFile::open(path)?, row: Vec::with_capacity(32 * places.len()), places, values })
    }

    /// Appends one row with a single write, so that a kill leaves at most one partial last line.
    pub fn append(&mut self, values: &[f64]) -> io::Result<()> {
        if values.len() != self.values {
            let text = format!("a row of {} values does not fit {} columns", values.len(), self.values);
            return Err(invalid(ErrorKind::InvalidInput, self.file.path(), text));
        }
        self.row.clear();
        for (index, place) in self.places.iter().enumerate() {
            let value = place.map_or(f64::NAN, |place| values[place]);
            if index > 0 {
                self.row.push(b',');
            }
            if !value.is_nan() {
                write!(self.row, "{value}")?;
            }
        }
        self.row.push(b'\n');
        self.file.append(&self.row)
    }

    /// Waits until all rows are on disk, so that a checkpoint saved next never outlives its own rows in a power cut.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    /// Reads a table; a partial last line, left by a kill or by a run that is writing just now, is passed over.
    pub fn read(path: &Path) -> io::Result<Table> {
        let bytes = fs::read(path).map_err(|error| failed("read", path, &error))?;
        parse(&bytes).map_err(|text| invalid(ErrorKind::InvalidData, path, text))
    }
}

impl Table {
    /// The position of the column called `name`.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }
}

fn invalid(kind: ErrorKind, path: &Path, text: impl Display) -> io::Error {
    io::Error::new(kind, format!("{}: {text}", path.display()))
}

fn check_names(columns: &[String]) -> Result<(), String> {
    if columns.is_empty() {
        return Err("a table needs at least one column".to_owned());
    }
    match columns.iter().find(|name| name.is_empty() || name.contains([',', '"', '\n', '\r'])) {
        Some(name) => Err(format!("{name:?} cannot name a column: it is empty or holds a comma, quote or line break")),
        None => Ok(()),
    }
}

fn parse(bytes: &[u8]) -> Result<Table, String> {
    let (header, body) = split_header(whole_lines(bytes)?)?;
    let columns: Vec<String> = header.split(',').map(str::to_owned).collect();
    let rows = body.lines().enumerate().map(|(index, line)| parse_row(line, index + 2, columns.len()));
    let rows = rows.collect::<Result<_, _>>()?;
    Ok(Table { columns, rows })
}

/// The start of the file that a resumed run keeps, the header and the rows before the first that `keep` refuses, and for each
/// column of the file its place among `columns`.
#[allow(clippy::type_complexity)] // a text and a list
fn kept_text<'a>(
    bytes: &'a [u8],
    columns: &[String],
    retired: &[&str],
    keep: impl Fn(&[f64]) -> bool,
) -> Result<(&'a str, Vec<Option<usize>>), String> {
    let text = whole_lines(bytes)?;
    let (header, body) = split_header(text)?;
    let wanted = columns.join(",");
    let place = |name: &str| columns.iter().position(|column| column == name);
    let places: Vec<Option<usize>> = header.split(',').map(place).collect();
    let known = header.split(',').filter(|name| place(name).is_some() || !retired.contains(name));
    if !known.eq(columns.iter().map(String::as_str)) {
        return Err(format!(
            "the header is not the one this run would write, so the table cannot be continued (in the file: {header}; \
             this run: {wanted})"
        ));
    }
    let mut end = text.len() - body.len();
    for (index, line) in body.split_inclusive('\n').enumerate() {
        if !keep(&parse_row(line.trim_end_matches('\n'), index + 2, places.len())?) {
            break;
        }
        end += line.len();
    }
    Ok((&text[..end], places))
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
    use std::fs::OpenOptions;
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
        assert_eq!(text(&path), "step,a,b\n30720,0.1,\n61440,-inf,-2.5\n");
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
    fn reading_passes_over_a_partial_last_line() {
        let folder = tempfile::tempdir().unwrap();
        // `5,0.6` looks whole, but was to be `5,0.625`: only the line break tells.
        let table = ProgressCsv::read(&four_rows(folder.path(), b"5,0.6")).unwrap();
        assert_eq!(table.rows, [[1.0, 0.125], [2.0, 0.25], [3.0, 0.375], [4.0, 0.5]]);
    }

    #[test]
    fn reopening_drops_the_partial_line_and_all_rows_from_the_first_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = four_rows(folder.path(), b"5,0.6");
        let columns = names(&["update", "loss"]);
        let mut csv = ProgressCsv::reopen(&path, &columns, &[], |row| row[0] <= 2.0).unwrap();
        assert_eq!(text(&path), "update,loss\n1,0.125\n2,0.25\n");
        csv.append(&[3.0, 7.0]).unwrap();
        assert_eq!(text(&path), "update,loss\n1,0.125\n2,0.25\n3,7\n");
        drop(csv);

        // Rows 1 and 3 pass, but 3 comes after the refused 2.
        ProgressCsv::reopen(&path, &columns, &[], |row| row[0] != 2.0).unwrap();
        assert_eq!(text(&path), "update,loss\n1,0.125\n");
        ProgressCsv::reopen(&path, &columns, &[], |_| false).unwrap();
        assert_eq!(text(&path), "update,loss\n");
    }

    #[test]
    fn reopening_a_whole_table_keeps_every_byte() {
        let folder = tempfile::tempdir().unwrap();
        let path = four_rows(folder.path(), b"");
        let before = text(&path);
        let mut csv = ProgressCsv::reopen(&path, &names(&["update", "loss"]), &[], |_| true).unwrap();
        csv.append(&[5.0, 0.625]).unwrap();
        assert_eq!(text(&path), before + "5,0.625\n");
    }

    #[test]
    fn a_column_of_an_older_version_stays_and_stays_empty() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("progress.csv");
        fs::write(&path, "update,old,loss\n1,7,0.5\n").unwrap();
        let mut csv = ProgressCsv::reopen(&path, &names(&["update", "loss"]), &["old"], |_| true).unwrap();
        csv.append(&[2.0, 0.25]).unwrap();
        assert_eq!(text(&path), "update,old,loss\n1,7,0.5\n2,,0.25\n");
        assert!(ProgressCsv::reopen(&path, &names(&["update", "loss"]), &[], |_| true).is_err());
    }

    #[test]
    fn another_header_is_an_error_and_the_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = four_rows(folder.path(), b"5,");
        let before = text(&path);
        let error = ProgressCsv::reopen(&path, &names(&["update", "cost"]), &[], |_| false).unwrap_err();
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
        let error = ProgressCsv::read(&four_rows(folder.path(), b"5,x\n")).unwrap_err();
        assert!(error.to_string().ends_with("line 6: \"x\" is not a number"), "{error}");
        let error = ProgressCsv::read(&four_rows(folder.path(), b"5\n")).unwrap_err();
        assert!(error.to_string().ends_with("line 6: 1 values under 2 columns"), "{error}");

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
        for columns in [&[][..], &["a,b"], &["a", ""], &["a\nb"], &["\"a\""]] {
            assert_eq!(ProgressCsv::create(&path, &names(columns)).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
        let mut csv = ProgressCsv::create(&path, &names(&["a", "b"])).unwrap();
        assert!(csv.append(&[1.0]).unwrap_err().to_string().contains("1 values does not fit 2 columns"));
        assert_eq!(text(&path), "a,b\n");
    }
}
