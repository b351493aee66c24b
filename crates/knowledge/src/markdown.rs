//! The title of a Markdown text without front matter: its first heading. Also removes the modules of an MDX text, which are code. Knows
//! no record.

use crate::record;

/// The first heading of a text, of any depth, as plain words. Lines of code do not count.
pub(crate) fn first_heading(text: &str) -> Option<String> {
    let mut before = "";
    for line in prose(text) {
        let marked = heading_text(line.trim_start_matches(' '));
        let found = match marked {
            Some(text) => plain(text),
            None if is_underline(line) => plain(before),
            None => String::new(),
        };
        if !found.is_empty() {
            return Some(found);
        }
        before = line;
    }
    None
}

/// An MDX text as Markdown: without its imports and exports, each of which ends at an empty line.
pub(crate) fn without_modules(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut fence = Fence::default();
    let mut is_module = false;
    for line in text.split_inclusive('\n') {
        let is_code = fence.holds(line);
        if !is_code
            && ["import ", "export "]
                .iter()
                .any(|word| line.starts_with(word))
        {
            is_module = true;
        }
        is_module &= !is_code && !line.trim().is_empty();
        if !is_module {
            kept.push_str(line);
        }
    }
    kept
}

/// The lines outside of code between fences.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut fence = Fence::default();
    text.lines().filter(move |line| !fence.holds(line))
}

/// The state of reading fenced code.
#[derive(Default)]
struct Fence {
    /// The mark that opened the code, and how often it was repeated.
    open: Option<(u8, usize)>,
}

impl Fence {
    /// Takes the next line; whether it is code or a fence.
    fn holds(&mut self, line: &str) -> bool {
        let line = line.trim();
        let mark = line.bytes().next().filter(|mark| b"`~".contains(mark));
        let count = line.bytes().take_while(|byte| Some(*byte) == mark).count();
        match (self.open, mark) {
            (None, Some(mark)) if count >= 3 => {
                self.open = Some((mark, count));
                true
            }
            (None, _) => false,
            (Some((open, least)), Some(mark))
                if mark == open && count >= least && count == line.len() =>
            {
                self.open = None;
                true
            }
            (Some(_), _) => true,
        }
    }
}

/// The text after one to six `#` and a space.
fn heading_text(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    let depth = line.len() - text.len();
    let is_heading = (1..=6).contains(&depth) && text.starts_with([' ', '\t']);
    let text = text.trim();
    // A name may end in the mark, as C# does.
    let closed = text.trim_end_matches('#');
    is_heading.then(
        || match closed.is_empty() || closed.ends_with([' ', '\t']) {
            true => closed,
            false => text,
        },
    )
}

/// Whether a line turns the line before it into a heading.
fn is_underline(line: &str) -> bool {
    let line = line.trim();
    ["=", "-"]
        .iter()
        .any(|mark| line.len() >= 3 && line.trim_start_matches(mark).is_empty())
}

/// A heading without marks: links and pictures become their words; tags and anchors are left out.
fn plain(heading: &str) -> String {
    let heading = match heading.trim_end().strip_suffix('}') {
        Some(rest) => rest.rsplit_once("{#").map_or(heading, |(text, _)| text),
        None => heading,
    };
    let mut words = String::with_capacity(heading.len());
    let mut rest = heading;
    let mut is_code = false;
    while let Some(letter) = rest.chars().next() {
        let after = &rest[letter.len_utf8()..];
        rest = match letter {
            '`' => {
                is_code = !is_code;
                after
            }
            letter if is_code => {
                words.push(letter);
                after
            }
            '<' => after.split_once('>').map_or(after, |(_, after)| after),
            ']' if after.starts_with('(') => {
                after.split_once(')').map_or(after, |(_, after)| after)
            }
            '!' if after.starts_with('[') => after,
            '*' | '[' | ']' | '\\' => after,
            letter => {
                words.push(letter);
                after
            }
        };
    }
    record::clean_line(&words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_first_heading_of_any_depth_in_plain_words() {
        for (text, expected) in [
            ("# Hull\n## Keel", Some("Hull")),
            (
                "\n<h1 align=\"center\">Fram</h1>\n\n## The hull\n",
                Some("The hull"),
            ),
            ("### `fram.sail()` *now* ###\n", Some("fram.sail() now")),
            ("# [The Fram](https://h/x) {#fram}\n", Some("The Fram")),
            (
                "# ![logo](a.png) Fram <Badge text=\"new\" />",
                Some("logo Fram"),
            ),
            ("The hull\n========\n", Some("The hull")),
            ("Text.\n\n---\n\nMore.\n\n## Hull", Some("Hull")),
            ("```sh\n# install it\n```\n# Hull", Some("Hull")),
            ("~~~~\n# a\n~~~\n# b\n~~~~\n# Hull", Some("Hull")),
            ("# \n## Hull", Some("Hull")),
            ("# C#", Some("C#")),
            ("# The type `Vec<T>`", Some("The type Vec<T>")),
            ("#hashtag\n####### seven", None),
            ("", None),
        ] {
            assert_eq!(first_heading(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn modules_are_no_text() {
        let text = "import Tabs from '@theme/Tabs';\nimport { a } from 'b'\n\nexport const meta = {\n  a: 1,\n};\n\n# Hull\n\nText.\n\n```js\nimport x from 'y'\n```\n";
        let kept = "\n\n# Hull\n\nText.\n\n```js\nimport x from 'y'\n```\n";
        assert_eq!(without_modules(text), kept);
    }
}
