//! The user's page as a client reports it. The report is not verified.

use crate::sensitive::Sensitive;
use serde::Deserialize;

/// The most characters of an address and of a title.
const URL_CHARACTERS_MAX: usize = 2_000;
const TITLE_CHARACTERS_MAX: usize = 300;

/// The page that a client is on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(expecting = "an object with url and title")]
pub struct Page {
    #[serde(default)]
    pub url: Option<Sensitive<String>>,
    #[serde(default)]
    pub title: Option<Sensitive<String>>,
}

impl Page {
    /// The page as it was sent, if it holds any text.
    ///
    /// # Errors
    ///
    /// A text is too long or holds control characters, or the address is no web address.
    pub fn checked(self) -> Result<Option<Self>, String> {
        let url = said(self.url, "url", URL_CHARACTERS_MAX)?;
        let title = said(self.title, "title", TITLE_CHARACTERS_MAX)?;
        if let Some(url) = &url {
            let url = url.expose().to_ascii_lowercase();
            if !url.starts_with("https://") && !url.starts_with("http://") {
                return Err("page.url begins neither with https:// nor with http://".to_owned());
            }
        }
        let page = Self { url, title };
        Ok((page != Self::default()).then_some(page))
    }
}

fn said(
    text: Option<Sensitive<String>>,
    name: &str,
    characters_max: usize,
) -> Result<Option<Sensitive<String>>, String> {
    let Some(text) = text.filter(|text| !text.expose().is_empty()) else {
        return Ok(None);
    };
    let is_good = text.expose().chars().count() <= characters_max
        && !text.expose().chars().any(char::is_control);
    match is_good {
        true => Ok(Some(text)),
        false => Err(format!(
            "page.{name} has more than {characters_max} characters, or control characters; shorten it or leave it out"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(page: &str) -> Result<Option<Page>, String> {
        serde_json::from_str::<Page>(page).unwrap().checked()
    }

    #[test]
    fn a_page_is_short_and_of_the_web() {
        let page = checked(r#"{"url": "https://shop.example/cart", "title": "Cart", "new": 1}"#);
        let page = page.unwrap().unwrap();
        assert_eq!(page.url.unwrap().expose(), "https://shop.example/cart");
        assert_eq!(page.title.unwrap().expose(), "Cart");
        assert_eq!(checked("{}"), Ok(None));
        assert_eq!(checked(r#"{"url": "", "title": null}"#), Ok(None));
        for page in [
            format!(r#"{{"url": "https://{}"}}"#, "a".repeat(2_000)),
            format!(r#"{{"title": "{}"}}"#, "a".repeat(301)),
            r#"{"title": "a\u0000"}"#.to_owned(),
            r#"{"url": "javascript:alert(1)"}"#.to_owned(),
            r#"{"url": "/cart"}"#.to_owned(),
        ] {
            assert!(checked(&page).is_err(), "{page}");
        }
    }
}
