//! The text of HTML pages and PDF files, which hold no front matter. Knows what a page's title is, and nothing of records.
//!
//! The libraries that read these files were written for good ones. A bad one may panic inside them, which is a file that
//! cannot be read and nothing else.

use crate::front_matter::Fault;
use crate::page_shape;
use crate::pdf::{self, Refusal};
use crate::record;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Bytes of a document's text. A longer one is a book, and nobody finds anything in one record of a book.
const TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Characters to a line of a page's text, so that no paragraph is broken into lines.
const LINE_WIDTH: usize = 100_000;
/// Bytes of a page's beginning in which its title is looked for.
const HEAD_BYTES_MAX: usize = 64 * 1024;
const TITLE_CHARACTERS_MAX: usize = 300;
const TITLE_BYTES_MAX: usize = 4 * 1024;

/// What was read of a file.
#[derive(Debug)]
pub(crate) struct Document {
    /// Where the file says one.
    pub(crate) title: Option<String>,
    pub(crate) text: String,
}

/// Reads a page: its text with headings and lists, without scripts, styles and the addresses of links.
pub(crate) fn html(page: &str) -> Result<Document, Fault> {
    // A parser that breaks on it breaks on it again.
    if contained(|| page_shape::is_too_much(page)).unwrap_or(true) {
        let message = "it has too many tags, or they lie too deep in one another: split the page, or save it anew";
        return Err(Fault::new(None, message));
    }
    let read = || {
        html2text::config::plain_no_decorate()
            .link_footnotes(false)
            .no_table_borders()
            .allow_width_overflow()
            .string_from_read(page.as_bytes(), LINE_WIDTH)
            .ok()
    };
    let text = contained(read)
        .flatten()
        .ok_or_else(|| Fault::new(None, "the page cannot be read as HTML"))?;
    let title = head_title(page).or_else(|| heading(&text));
    document(title, text)
}

/// Reads the text of a file's pages.
pub(crate) fn pdf(bytes: &[u8]) -> Result<Document, Fault> {
    let read = || pdf::text(bytes, TEXT_BYTES_MAX);
    let text = contained(read)
        .unwrap_or(Err(Refusal::Damaged))
        .map_err(|refusal| Fault::new(None, refusal.to_string()))?;
    document(None, text)
}

/// `None` where the reading panics. What that leaves behind is thrown away with it.
fn contained<T>(read: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(read)).ok()
}

fn document(title: Option<String>, text: String) -> Result<Document, Fault> {
    if text.len() > TEXT_BYTES_MAX {
        let message =
            format!("the text is longer than {TEXT_BYTES_MAX} bytes: split the file into several");
        return Err(Fault::new(None, message));
    }
    if !text.chars().any(char::is_alphanumeric) {
        let message = "the file holds no text: where it is a picture of one, add the text itself";
        return Err(Fault::new(None, message));
    }
    Ok(Document { title, text })
}

/// What stands between the tags `title`, as text.
fn head_title(page: &str) -> Option<String> {
    let head = &page[..page.floor_char_boundary(HEAD_BYTES_MAX)];
    // Letters of ASCII alone change, so that places stay where they are.
    let lower = head.to_ascii_lowercase();
    let tag = lower.find("<title")?;
    let start = tag + lower[tag..].find('>')? + 1;
    let end = start + lower[start..].find("</title")?;
    let inner = &head[start..end];
    // What stands there is text, but is read as tags here, which might multiply.
    let inner = &inner[..inner.floor_char_boundary(TITLE_BYTES_MAX)];
    let inner = format!("<p>{inner}</p>");
    let read = || {
        html2text::config::plain_no_decorate()
            .string_from_read(inner.as_bytes(), LINE_WIDTH)
            .ok()
    };
    shortened(&contained(read).flatten()?)
}

fn heading(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with('#'))?;
    shortened(line.trim_start_matches('#'))
}

fn shortened(title: &str) -> Option<String> {
    let title: String = record::clean_line(title)
        .chars()
        .take(TITLE_CHARACTERS_MAX)
        .collect();
    (!title.is_empty()).then_some(title)
}
