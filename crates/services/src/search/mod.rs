//! Services that search the web. Decides which parts of a stranger's page are passed on: an address that a browser may open, and
//! texts without markup.

mod brave;
mod openai;
mod tavily;

pub use brave::Brave;
pub use openai::OpenaiSearch;
pub use tavily::Tavily;

use crate::plain::plain;
use std::fmt::Write;
use windlass_contract::handler::WebResult;

const ADDRESS_BYTES_MAX: usize = 2_048;
const TITLE_CHARACTERS_MAX: usize = 200;
const SNIPPET_CHARACTERS_MAX: usize = 600;
const SUMMARY_CHARACTERS_MAX: usize = 4_000;
const PUBLISHED_CHARACTERS_MAX: usize = 40;

/// A page as a service describes it.
#[derive(Default)]
struct Page<'a> {
    url: &'a str,
    title: &'a str,
    snippet: Option<&'a str>,
    published: Option<&'a str>,
}

/// The pages that may be passed on, each once, in their order.
fn results<'a>(pages: impl Iterator<Item = Page<'a>>, results_max: usize) -> Vec<WebResult> {
    let mut results: Vec<WebResult> = Vec::new();
    for page in pages {
        if results.len() == results_max {
            break;
        }
        if let Some(result) = result(&page)
            && !results.iter().any(|known| known.url == result.url)
        {
            results.push(result);
        }
    }
    results
}

fn result(page: &Page<'_>) -> Option<WebResult> {
    let url = address(page.url)?;
    let shown = |text: Option<&str>, characters_max: usize| {
        let text = plain(text?, characters_max);
        (!text.is_empty()).then_some(text)
    };
    Some(WebResult {
        title: shown(Some(page.title), TITLE_CHARACTERS_MAX).unwrap_or_else(|| host(&url)),
        snippet: shown(page.snippet, SNIPPET_CHARACTERS_MAX),
        published: shown(page.published, PUBLISHED_CHARACTERS_MAX),
        url,
    })
}

/// An address of the web that names a host and no user. Its path's letters outside ASCII are written as browsers send them.
fn address(text: &str) -> Option<String> {
    let text = text.trim();
    let (scheme, rest) = text.split_once("://")?;
    let is_web = ["http", "https"]
        .iter()
        .any(|web| scheme.eq_ignore_ascii_case(web));
    let authority = rest.split(['/', '?', '#']).next()?;
    let is_host = !authority.is_empty()
        && authority
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte));
    if !is_web || !is_host {
        return None;
    }
    let mut address = format!("{}://{authority}", scheme.to_ascii_lowercase());
    for letter in rest[authority.len()..].chars() {
        match letter {
            '<' | '>' | '"' | '\\' | '^' | '`' | '{' | '|' | '}' => return None,
            letter if letter.is_ascii_graphic() => address.push(letter),
            letter if letter.is_ascii() => return None,
            letter => {
                for byte in letter.encode_utf8(&mut [0; 4]).bytes() {
                    let _ = write!(address, "%{byte:02X}");
                }
            }
        }
    }
    (address.len() <= ADDRESS_BYTES_MAX).then_some(address)
}

fn host(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?', '#'])
        .next()
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn only_addresses_that_a_browser_may_open_are_told() {
        for (given, expected) in [
            (
                "https://a.example/x?y=1#z",
                Some("https://a.example/x?y=1#z"),
            ),
            ("HTTP://a.example:8080", Some("http://a.example:8080")),
            ("https://a.example/é", Some("https://a.example/%C3%A9")),
            (" https://[2001:db8::1]/ ", Some("https://[2001:db8::1]/")),
            ("javascript:alert(1)", None),
            ("data://a/b", None),
            ("ftp://a.example/", None),
            ("//a.example/", None),
            ("https://", None),
            ("https://user@a.example/", None),
            ("https://a.example/a b", None),
            ("https://a.example/\"onclick=x", None),
            ("https://аррӏе.example/", None),
        ] {
            assert_eq!(address(given).as_deref(), expected, "{given}");
        }
        assert_eq!(
            address(&format!("https://a.example/{}", "x".repeat(2_048))),
            None
        );
    }
}
