//! Paths of keys, segment by segment. Knows how TOML writes them; knows no key.

use std::fmt;

/// A key's place in the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyPath(Vec<String>);

impl From<&str> for KeyPath {
    /// Of a path without names of the user's: `server.listen`.
    fn from(path: &str) -> Self {
        Self(path.split('.').map(str::to_owned).collect())
    }
}

impl KeyPath {
    pub(super) fn segments(&self) -> &[String] {
        &self.0
    }

    pub(super) fn child(&self, segment: &str) -> Self {
        let mut segments = self.0.clone();
        segments.push(segment.to_owned());
        Self(segments)
    }

    /// What is left of the path behind another one.
    pub(super) fn behind(&self, prefix: &Self) -> Option<&[String]> {
        self.0.strip_prefix(prefix.0.as_slice())
    }

    /// The table that holds the key, and the key's own name there.
    pub(super) fn split(&self) -> (Self, &str) {
        match self.0.split_last() {
            Some((name, table)) => (Self(table.to_vec()), name),
            None => (Self::default(), ""),
        }
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, segment) in self.0.iter().enumerate() {
            if index > 0 {
                formatter.write_str(".")?;
            }
            formatter.write_str(&segment_text(segment))?;
        }
        Ok(())
    }
}

/// A segment as TOML writes it: in quotes where it is no bare key.
pub(super) fn segment_text(segment: &str) -> String {
    let is_bare = !segment.is_empty()
        && segment
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if is_bare {
        segment.to_owned()
    } else {
        toml::Value::String(segment.to_owned()).to_string()
    }
}
