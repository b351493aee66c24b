//! The text of HTML pages and PDF files, which hold no front matter. Knows what a page's title is, and nothing of records.
//!
//! The libraries that read these files were written for good ones. A bad one may panic inside them, which is a file that
//! cannot be read and nothing else.

use crate::front_matter::Fault;
use crate::pdf::{self, Refusal};
use crate::record;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Bytes of a document's text. A longer one is a book, and nobody finds anything in one record of a book.
const TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Characters to a line of a page's text, so that no paragraph is broken into lines.
const LINE_WIDTH: usize = 100_000;
/// Bytes of a page's beginning in which its title is looked for.
const HEAD_BYTES_MAX: usize = 64 * 1024;
const TITLE_CHARACTERS_MAX: usize = 300;
/// Lists, quotations and tables of a page in one another. Each line of text repeats what says how deep it is.
const NESTED_MAX: usize = 256;
const NESTED: [&str; 6] = ["blockquote", "dl", "ol", "pre", "table", "ul"];
/// Tags that may be looked at while a page is read, about two seconds' worth.
const LOOKS_MAX: usize = 500_000_000;
/// Tags that hold nothing, or end where the next of their kind begins.
const NEVER_OPEN: [&str; 25] = [
    "area", "base", "br", "col", "colgroup", "dd", "dt", "embed", "hr", "img", "input", "li",
    "link", "meta", "option", "p", "source", "tbody", "td", "tfoot", "th", "thead", "tr", "track",
    "wbr",
];

/// Tags whose insides are no tags.
const RAW: [&str; 4] = ["script", "style", "textarea", "title"];
const REMARK_END: &str = "-->";

/// What was read of a file.
#[derive(Debug)]
pub(crate) struct Document {
    /// Where the file says one.
    pub(crate) title: Option<String>,
    pub(crate) text: String,
}

/// Reads a page: its text with headings and lists, without scripts, styles and the addresses of links.
pub(crate) fn html(page: &str) -> Result<Document, Fault> {
    if is_too_deep(page) {
        let message = "tags lie too deep in one another: save the page anew";
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

/// Whether the tags of a page lie so deep in one another that its text would grow without end, or its reading would take
/// without end: for each tag the library may look through all those that are open.
///
/// What begins counts wherever it stands. What ends does only where it is open, and not in a remark, a script, a style or
/// the middle of another tag.
fn is_too_deep(page: &str) -> bool {
    let mut opened: HashMap<String, usize> = HashMap::new();
    let (mut open, mut nested, mut looks) = (0_usize, 0_usize, 0_usize);
    let mut hidden_until: Option<String> = None;
    let mut is_tag_complete = true;
    for tag in page.split('<').skip(1) {
        let (is_end, name) = match tag.strip_prefix('/') {
            Some(name) => (true, name),
            None => (false, tag),
        };
        let end = name.find(|letter: char| !letter.is_ascii_alphanumeric());
        let name = name[..end.unwrap_or(name.len())].to_ascii_lowercase();
        let is_nested = NESTED.contains(&name.as_str());
        looks = looks.saturating_add(open);
        // A `<` in front of no letter begins no tag, and leaves open what was open.
        let is_text = name.is_empty() && !is_end && !tag.starts_with(['!', '?']);
        let is_open = !name.is_empty() && !NEVER_OPEN.contains(&name.as_str());
        if is_end {
            let is_seen = is_tag_complete && hidden_until.as_ref().is_none_or(|end| *end == name);
            let known = opened.get_mut(&name).filter(|known| is_seen && **known > 0);
            if let Some(known) = known {
                *known -= 1;
                open -= 1;
                nested -= usize::from(is_nested);
                hidden_until = None;
            }
        } else if is_open {
            open += 1;
            nested += usize::from(is_nested);
            if hidden_until.is_none() && RAW.contains(&name.as_str()) {
                hidden_until = Some(name.clone());
            }
            *opened.entry(name).or_default() += 1;
        } else if hidden_until.is_none() && tag.starts_with("!--") {
            hidden_until = Some(REMARK_END.to_owned());
        }
        if hidden_until.as_deref() == Some(REMARK_END) && tag.contains(REMARK_END) {
            hidden_until = None;
        }
        is_tag_complete = tag.contains('>') || (is_tag_complete && is_text);
        if nested > NESTED_MAX || looks > LOOKS_MAX {
            return true;
        }
    }
    false
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
    let inner = format!("<p>{}</p>", &head[start..end]);
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
