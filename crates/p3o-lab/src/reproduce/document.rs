//! A document of plain blocks, as a web page that needs nothing else and as Markdown with pictures beside it.

use std::fmt::Write;

/// A piece of a document.
pub enum Block {
    /// With its level, 2 or 3.
    Heading(u8, String),
    /// A paragraph.
    Text(String),
    /// Rows under headings.
    Table {
        /// The headings.
        head: Vec<String>,
        /// As wide as the headings.
        rows: Vec<Vec<String>>,
    },
    /// A picture.
    Figure {
        /// The name of its files, without an extension.
        name: String,
        /// Itself.
        svg: String,
        /// The same in pixels.
        png: Vec<u8>,
        /// What it shows.
        about: String,
    },
    /// Lines for a shell.
    Code(String),
}

/// A title and what stands under it.
pub struct Document {
    /// The title.
    pub title: String,
    /// From top to bottom.
    pub blocks: Vec<Block>,
}

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1d2126; --paper: #fff; --rule: #d5d9de; --soft: #f4f5f7; --good: #0a7a46; --bad: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e7ea; --paper: #15181c; --rule: #3a4048; --soft: #1e2227; --good: #5fd39b; --bad: #ff8a80; }
}
body { margin: 2rem auto; padding: 0 1rem; max-width: 70rem; font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); }
h1, h2, h3 { line-height: 1.2; }
h2 { margin-top: 3rem; border-bottom: 1px solid var(--rule); padding-bottom: .3rem; }
.wide { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--rule); text-align: left; vertical-align: top; }
th { font-weight: 600; }
td:first-child { min-width: 4.5rem; }
.agrees { color: var(--good); font-weight: 600; }
.differs { color: var(--bad); font-weight: 600; }
.not-decided { opacity: .7; white-space: nowrap; }
figure { margin: 1rem 0; overflow-x: auto; }
figure svg { background: #fff; border-radius: 6px; max-width: 100%; height: auto; }
figcaption { font-size: .85rem; opacity: .8; }
pre { background: var(--soft); padding: .8rem; white-space: pre-wrap; font-size: .8rem; border-radius: 6px; }
";

impl Document {
    /// The pictures' files with their contents; Markdown refers to the first kind.
    pub fn figures(&self) -> impl Iterator<Item = (String, &[u8])> {
        self.blocks.iter().flat_map(|block| match block {
            Block::Figure { name, svg, png, .. } => {
                vec![(format!("{name}.svg"), svg.as_bytes()), (format!("{name}.png"), &png[..])]
            }
            _ => Vec::new(),
        })
    }

    /// One page without references to anything outside.
    pub fn html(&self) -> String {
        let title = escape(&self.title);
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
             content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n\
             <body>\n<h1>{title}</h1>\n"
        );
        for block in &self.blocks {
            let _ = match block {
                Block::Heading(level, text) => writeln!(page, "<h{level}>{}</h{level}>", escape(text)),
                Block::Text(text) => writeln!(page, "<p>{}</p>", escape(text)),
                Block::Table { head, rows } => writeln!(page, "{}", html_table(head, rows)),
                Block::Figure { svg, about, .. } => {
                    writeln!(page, "<figure>\n{svg}<figcaption>{}</figcaption>\n</figure>", escape(about))
                }
                Block::Code(text) => writeln!(page, "<pre>{}</pre>", escape(text)),
            };
        }
        page + "</body>\n</html>\n"
    }

    /// For a repository's folder.
    pub fn markdown(&self) -> String {
        let mut text = format!("# {}\n", self.title);
        for block in &self.blocks {
            let _ = match block {
                Block::Heading(level, title) => writeln!(text, "\n{} {title}", "#".repeat(usize::from(*level))),
                Block::Text(line) => writeln!(text, "\n{line}"),
                Block::Table { head, rows } => {
                    let line = |cells: &[String]| {
                        let cells: Vec<String> = cells.iter().map(|c| c.replace('|', "\\|")).collect();
                        format!("| {} |", cells.join(" | "))
                    };
                    let rule = format!("|{}", "---|".repeat(head.len()));
                    let rows: Vec<String> = rows.iter().map(|row| line(row)).collect();
                    writeln!(text, "\n{}\n{rule}\n{}", line(head), rows.join("\n"))
                }
                Block::Figure { name, about, .. } => writeln!(text, "\n![{about}]({name}.svg)"),
                Block::Code(lines) => writeln!(text, "\n```sh\n{lines}\n```"),
            };
        }
        text
    }
}

fn html_table(head: &[String], rows: &[Vec<String>]) -> String {
    let mut text = "<div class=\"wide\"><table>\n<thead><tr>".to_string();
    head.iter().for_each(|cell| text += &format!("<th>{}</th>", escape(cell)));
    text += "</tr></thead>\n<tbody>\n";
    for row in rows {
        text += "<tr>";
        for cell in row {
            let class = match cell.as_str() {
                "agrees" | "differs" | "not decided" => format!(" class=\"{}\"", cell.replace(' ', "-")),
                _ => String::new(),
            };
            text += &format!("<td{class}>{}</td>", escape(cell));
        }
        text += "</tr>\n";
    }
    text + "</tbody>\n</table></div>"
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Document {
        let table = Block::Table {
            head: vec!["a | b".into(), "here".into()],
            rows: vec![vec!["x < y".into(), "not decided".into()]],
        };
        let figure =
            Block::Figure { name: "f".into(), svg: "<svg></svg>\n".into(), png: vec![1, 2], about: "a curve".into() };
        Document { title: "T & U".into(), blocks: vec![Block::Heading(2, "One".into()), table, figure] }
    }

    #[test]
    fn a_page_carries_its_pictures_and_escapes_its_words() {
        let page = document().html();
        assert!(page.contains("<h1>T &amp; U</h1>") && page.contains("<td>x &lt; y</td>") && page.contains("<svg>"));
        assert!(page.contains("<td class=\"not-decided\">not decided</td>"));
        assert!(!page.contains("http") && !page.contains("src=") && !page.contains("href="));
    }

    #[test]
    fn markdown_has_its_pictures_beside_it() {
        let expected =
            "# T & U\n\n## One\n\n| a \\| b | here |\n|---|---|\n| x < y | not decided |\n\n![a curve](f.svg)\n";
        assert_eq!(document().markdown(), expected);
        assert_eq!(
            document().figures().collect::<Vec<_>>(),
            [("f.svg".into(), &b"<svg></svg>\n"[..]), ("f.png".into(), &[1, 2][..])]
        );
    }
}
