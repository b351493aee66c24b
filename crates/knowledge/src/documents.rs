//! Documents without front matter: HTML pages and PDF files. Reads their titles and texts; knows nothing of records.
//!
//! The libraries that read these files were written for good ones: a bad file may crash them or fill the memory. So a base reads
//! documents through a [`DocumentReader`], which can use a process of its own, and refuses none beforehand.

use serde::{Deserialize, Serialize};

/// The format of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentKind {
    Html,
    Pdf,
}

impl DocumentKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Html => "html",
            Self::Pdf => "pdf",
        }
    }
}

/// The parts that were read of a document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// The title, if the document has one.
    pub title: Option<String>,
    pub text: String,
}

/// Reads documents for a base.
pub trait DocumentReader: Send + Sync {
    /// The error names the problem of the document and its cure.
    fn read(&self, kind: DocumentKind, bytes: &[u8]) -> Result<Document, String>;
}

#[cfg(feature = "documents")]
pub use reading::{DOCUMENT_TEXT_BYTES_MAX, read_document};

#[cfg(feature = "documents")]
mod reading {
    use super::{Document, DocumentKind};
    use crate::{front_matter, record};
    use std::panic::catch_unwind;

    /// The most bytes of a document's text. A longer text is a book; one record for a book is useless for search.
    pub const DOCUMENT_TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;
    /// The key of a PDF's trailer that refers to its encryption.
    const ENCRYPTED: &[u8] = b"/Encrypt";
    /// Characters to a line of a page's text: so many that no paragraph is broken into lines.
    const LINE_WIDTH: usize = 100_000;
    /// The most bytes at a page's beginning that are searched for its title.
    const HEAD_BYTES_MAX: usize = 64 * 1024;

    /// Reads a document in this process; a bad document may crash it.
    pub fn read_document(kind: DocumentKind, bytes: &[u8]) -> Result<Document, String> {
        let read = || match kind {
            DocumentKind::Html => html(bytes),
            DocumentKind::Pdf => pdf(bytes),
        };
        let document = catch_unwind(read)
            .unwrap_or_else(|_| Err("the file is damaged: save it anew".to_owned()))?;
        if document.text.len() > DOCUMENT_TEXT_BYTES_MAX {
            return Err(format!(
                "the text is longer than {DOCUMENT_TEXT_BYTES_MAX} bytes: split the file into several"
            ));
        }
        if !has_words(&document.text) {
            return Err(
                "the file holds no text: where it is a picture of one, add the text itself"
                    .to_owned(),
            );
        }
        Ok(document)
    }

    fn has_words(text: &str) -> bool {
        text.chars().any(char::is_alphanumeric)
    }

    fn pdf(bytes: &[u8]) -> Result<Document, String> {
        // A damaged file may be read as one without pages, or not at all. The file still shows whether it is encrypted.
        let is_encrypted = || bytes.windows(ENCRYPTED.len()).any(|part| part == ENCRYPTED);
        match pdf_extract::extract_text_from_mem(bytes) {
            Ok(text) if has_words(&text) || !is_encrypted() => Ok(Document { title: None, text }),
            Err(_) if !is_encrypted() => {
                Err("the file cannot be read as a PDF: it is damaged; save it anew".to_owned())
            }
            Ok(_) | Err(_) => Err("the file is encrypted: save it without a password".to_owned()),
        }
    }

    /// A page's text with headings and lists, without scripts, styles and the addresses of links.
    fn html(bytes: &[u8]) -> Result<Document, String> {
        let page = front_matter::text(bytes).map_err(|fault| fault.message)?;
        let text = text_of(page)?;
        let title = head_title(page).or_else(|| heading(&text));
        Ok(Document { title, text })
    }

    fn text_of(page: &str) -> Result<String, String> {
        html2text::config::plain_no_decorate()
            .link_footnotes(false)
            .no_table_borders()
            .allow_width_overflow()
            .string_from_read(page.as_bytes(), LINE_WIDTH)
            .map_err(|_| "the page cannot be read as HTML: save it anew".to_owned())
    }

    /// The content of the tag `title`, as text.
    fn head_title(page: &str) -> Option<String> {
        let head = &page[..page.floor_char_boundary(HEAD_BYTES_MAX)];
        // Only ASCII letters change, so positions stay the same.
        let lower = head.to_ascii_lowercase();
        let tag = lower.find("<title")?;
        let start = tag + lower[tag..].find('>')? + 1;
        let end = start + lower[start..].find("</title")?;
        titled(&text_of(&format!("<p>{}</p>", &head[start..end])).ok()?)
    }

    fn heading(text: &str) -> Option<String> {
        let line = text.lines().find(|line| line.starts_with('#'))?;
        titled(line.trim_start_matches('#'))
    }

    fn titled(title: &str) -> Option<String> {
        let title = record::title(title);
        (!title.is_empty()).then_some(title)
    }
}
