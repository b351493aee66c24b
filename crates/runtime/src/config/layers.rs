//! Lays the sources of a configuration over one another: defaults, file, environment, flags, the later one winning. Knows
//! which keys exist and where each value came from; what a value means is for its reader.

use super::FILE_NAME;
use super::error::{BadValue, ConfigError};
use super::keys::{Key, Kind, keys};
use super::nearest;
use super::path::KeyPath;
use super::values::{Problem, Setting};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// The longest file that is read.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The environment as it was found.
pub type Environment = BTreeMap<OsString, OsString>;

/// Where a configuration comes from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The file to read; where none is named, that of the working directory if there is one.
    pub file: Option<PathBuf>,
    pub working_directory: PathBuf,
    pub environment: Environment,
    pub flags: Vec<Flag>,
}

/// A key that was set on the command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Flag {
    /// As it was written: `--listen`.
    pub name: &'static str,
    pub key: &'static str,
    pub value: String,
}

/// Which source a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Default,
    File(PathBuf),
    Variable(String),
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::File(path) => write!(formatter, "from {}", path.display()),
            Self::Variable(name) => write!(formatter, "from the environment, {name}"),
            Self::Flag(name) => write!(formatter, "from {name}"),
        }
    }
}

/// A value, and its origin.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) value: Value,
    pub(super) origin: Origin,
}

/// All values of all sources, merged.
#[derive(Debug)]
pub(super) struct Values {
    keys: Vec<Key>,
    found: BTreeMap<KeyPath, Found>,
    environment: Environment,
    ignored_variables: Vec<String>,
}

impl Values {
    pub(super) fn merge(sources: &Sources) -> Result<Self, ConfigError> {
        let keys = keys();
        let defaults = keys.iter().filter_map(|key| {
            let value = key.default.clone()?;
            let origin = Origin::Default;
            Some((KeyPath::from(key.path.as_str()), Found { value, origin }))
        });
        let mut values = Self {
            found: defaults.collect(),
            keys,
            environment: sources.environment.clone(),
            ignored_variables: Vec::new(),
        };
        if let Some((path, table)) = read_file(sources)? {
            values.add_table(&KeyPath::default(), table, &Origin::File(path))?;
        }
        values.add_environment()?;
        for flag in &sources.flags {
            values.add_text(&flag.key.into(), &flag.value, Origin::Flag(flag.name))?;
        }
        Ok(values)
    }

    pub(super) fn keys(&self) -> &[Key] {
        &self.keys
    }

    pub(super) fn found(&self) -> &BTreeMap<KeyPath, Found> {
        &self.found
    }

    pub(super) fn is_secret(&self, path: &KeyPath) -> bool {
        self.keys
            .iter()
            .any(|key| key.is_secret && key.matches(path))
    }

    pub(super) fn take_ignored_variables(&mut self) -> Vec<String> {
        std::mem::take(&mut self.ignored_variables)
    }

    /// The user's own names in a section, sorted: that of `tools.kb_search.timeout_ms` is `kb_search`.
    pub(super) fn names(&self, section: &str) -> Vec<String> {
        let section = KeyPath::from(section);
        let mut names: Vec<String> = self
            .found
            .keys()
            .filter_map(|path| path.behind(&section)?.first().cloned())
            .collect();
        names.dedup();
        names
    }

    /// The value of a key, checked; `None` where it is not set.
    pub(super) fn get<T: Setting>(&self, path: &KeyPath) -> Result<Option<T>, ConfigError> {
        debug_assert!(
            self.keys.iter().any(|key| key.matches(path)),
            "{path} is in the list of keys"
        );
        let Some(found) = self.found.get(path) else {
            return Ok(None);
        };
        T::read(&found.value)
            .map(Some)
            .map_err(|problem| self.refuse(path, found, problem))
    }

    /// The value of a key that has a default.
    pub(super) fn need<T: Setting>(&self, path: &str) -> Result<T, ConfigError> {
        Ok(self
            .get(&path.into())?
            .expect("a key that is needed has a default in the list of keys"))
    }

    /// An error about the value that a key has.
    pub(super) fn refuse_found(&self, path: &str, problem: Problem) -> ConfigError {
        self.refuse_at(&path.into(), problem)
    }

    pub(super) fn refuse_at(&self, path: &KeyPath, problem: Problem) -> ConfigError {
        let unset = Found {
            value: Value::String(String::new()),
            origin: Origin::Default,
        };
        self.refuse(path, self.found.get(path).unwrap_or(&unset), problem)
    }

    /// An error about a value that was found.
    fn refuse(&self, path: &KeyPath, found: &Found, problem: Problem) -> ConfigError {
        ConfigError::BadValue(Box::new(BadValue {
            key: path.to_string(),
            value: if self.is_secret(path) {
                "…".to_owned()
            } else {
                shown(&found.value)
            },
            origin: found.origin.clone(),
            cause: problem.cause,
            cure: problem.cure,
        }))
    }

    /// Fills a key that is not set from a variable that other programs use too.
    pub(super) fn fall_back_to_variable(
        &mut self,
        path: &str,
        variable: &str,
    ) -> Result<(), ConfigError> {
        let path = KeyPath::from(path);
        if self.found.contains_key(&path) {
            return Ok(());
        }
        let Some(value) = self.environment.get(&OsString::from(variable)).cloned() else {
            return Ok(());
        };
        let value = value
            .into_string()
            .map_err(|_| ConfigError::VariableNotText {
                name: variable.to_owned(),
            })?;
        if !value.is_empty() {
            self.add_text(&path, &value, Origin::Variable(variable.to_owned()))?;
        }
        Ok(())
    }

    fn add_table(
        &mut self,
        path: &KeyPath,
        table: Table,
        origin: &Origin,
    ) -> Result<(), ConfigError> {
        for (name, value) in table {
            let path = path.child(&name);
            let origin = origin.clone();
            if self.keys.iter().any(|key| key.matches(&path)) {
                self.found.insert(path, Found { value, origin });
            } else if !self.keys.iter().any(|key| key.is_beneath(&path)) {
                return Err(self.unknown(&path, origin));
            } else if let Value::Table(table) = value {
                self.add_table(&path, table, &origin)?;
            } else {
                let problem = Problem::new(
                    "is no table",
                    "docs/configuration.md lists the keys that it holds",
                );
                return Err(self.refuse(&path, &Found { value, origin }, problem));
            }
        }
        Ok(())
    }

    fn unknown(&self, path: &KeyPath, origin: Origin) -> ConfigError {
        ConfigError::UnknownKey {
            key: path.to_string(),
            origin,
            nearest: nearest::key(&self.keys, path),
        }
    }

    fn add_environment(&mut self) -> Result<(), ConfigError> {
        let ours: Vec<(String, OsString)> = self
            .environment
            .iter()
            .filter_map(|(name, value)| {
                let name = name.to_str()?;
                name.starts_with("WINDLASS_")
                    .then(|| (name.to_owned(), value.clone()))
            })
            .collect();
        for (name, value) in ours {
            let known = self
                .keys
                .iter()
                .find(|key| key.variable().as_deref() == Some(&name));
            let Some(path) = known.map(|key| KeyPath::from(key.path.as_str())) else {
                self.refuse_or_ignore(name)?;
                continue;
            };
            let value = value
                .into_string()
                .map_err(|_| ConfigError::VariableNotText { name: name.clone() })?;
            // An empty variable is how a shell takes one back.
            if !value.is_empty() {
                self.add_text(&path, &value, Origin::Variable(name))?;
            }
        }
        Ok(())
    }

    /// A variable that speaks of one of our sections is a slip; other programs may have named theirs after us.
    fn refuse_or_ignore(&mut self, name: String) -> Result<(), ConfigError> {
        if !self
            .keys
            .iter()
            .any(|key| key.own_of_variable(&name).is_some())
        {
            self.ignored_variables.push(name);
            return Ok(());
        }
        let nearest = nearest::variable(&self.keys, &name);
        Err(ConfigError::UnknownVariable { name, nearest })
    }

    /// Reads a text as the kind of value that the key has.
    fn add_text(&mut self, path: &KeyPath, text: &str, origin: Origin) -> Result<(), ConfigError> {
        let kind = self
            .keys
            .iter()
            .find(|key| key.matches(path))
            .map_or(Kind::Text, |key| key.kind);
        let value = match value_of_text(kind, text) {
            Ok(value) => value,
            Err(problem) => {
                let value = Value::String(text.to_owned());
                return Err(self.refuse(path, &Found { value, origin }, problem));
            }
        };
        self.found.insert(path.clone(), Found { value, origin });
        Ok(())
    }
}

fn value_of_text(kind: Kind, text: &str) -> Result<Value, Problem> {
    let trimmed = text.trim();
    match kind {
        Kind::Text => Ok(Value::String(text.to_owned())),
        Kind::Whole => trimmed
            .parse()
            .map(Value::Integer)
            .map_err(|_| Problem::new("is no whole number", "write digits only")),
        Kind::Fraction => trimmed
            .parse()
            .map(Value::Float)
            .map_err(|_| Problem::new("is no number", "write it as in 0.7")),
        Kind::Flag => trimmed
            .parse()
            .map(Value::Boolean)
            .map_err(|_| Problem::new("is neither true nor false", "write one of them")),
        Kind::List => Ok(Value::Array(
            trimmed
                .split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty())
                .map(|item| Value::String(item.to_owned()))
                .collect(),
        )),
    }
}

fn read_file(sources: &Sources) -> Result<Option<(PathBuf, Table)>, ConfigError> {
    let usual = sources.working_directory.join(FILE_NAME);
    let (path, shown) = match &sources.file {
        Some(path) => (sources.working_directory.join(path), path.clone()),
        None if usual.exists() => (usual, PathBuf::from(FILE_NAME)),
        None => return Ok(None),
    };
    let text = read_text(&path, &shown)?;
    match text.parse::<Table>() {
        Ok(table) => Ok(Some((shown, table))),
        Err(error) => {
            let offset = error.span().map_or(0, |span| span.start).min(text.len());
            let before = text.get(..offset).unwrap_or_default();
            let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
            Err(ConfigError::Syntax {
                path: shown,
                line: before.matches('\n').count() + 1,
                column: before[line_start..].chars().count() + 1,
                problem: error.message().replace('\n', ", "),
            })
        }
    }
}

fn read_text(path: &Path, shown: &Path) -> Result<String, ConfigError> {
    let unreadable = |cause| ConfigError::Unreadable {
        path: shown.to_owned(),
        cause,
    };
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(unreadable)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(ConfigError::TooLong {
            path: shown.to_owned(),
            bytes_max: FILE_BYTES_MAX,
        });
    }
    String::from_utf8(bytes).map_err(|_| ConfigError::NotText {
        path: shown.to_owned(),
    })
}

/// A value in one line, cut where it is long.
fn shown(value: &Value) -> String {
    let mut text = without_credentials(value).to_string().replace('\n', " ");
    if let Some((end, _)) = text.char_indices().nth(80) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// The value with what may be a password or a key in an address left out: its user, query and fragment. What cannot be
/// taken apart is left out as a whole.
fn without_credentials(value: &Value) -> Value {
    match value {
        Value::String(text) if text.contains(['@', '?', '#']) => {
            let uri = text.trim().parse::<http::Uri>().ok();
            let parts = uri.and_then(|uri| {
                let (scheme, authority) = (uri.scheme_str()?, uri.authority()?);
                let (_, host) = authority
                    .as_str()
                    .rsplit_once('@')
                    .unwrap_or(("", authority.as_str()));
                Some(format!("{scheme}://{host}{}…", uri.path()))
            });
            Value::String(parts.unwrap_or_else(|| "…".to_owned()))
        }
        Value::Array(items) => Value::Array(items.iter().map(without_credentials).collect()),
        Value::Table(fields) => {
            let fields = fields.iter();
            let shown = fields.map(|(name, field)| (name.clone(), without_credentials(field)));
            Value::Table(shown.collect())
        }
        _ => value.clone(),
    }
}
