//! One overlay of all sources: defaults, file, environment, flags, the later one winning. Knows the keys, the source of each value, and
//! every mistake that was found; the sections know the meaning of a value.

use super::FILE_NAME;
use super::key::{Key, Kind, is_name};
use super::values::{Secret, SecretName};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_path_to_error::Segment;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue, ValueDeserializer};
use toml::{Table, Value};
use windlass_contract::number;
use windlass_contract::wording::edit_distance;

/// The longest file that is read.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Mistakes that are reported at once.
const PROBLEMS_MAX: usize = 50;

/// Bytes of a name that are compared with others.
const COMPARED_BYTES: usize = 64;

/// The prefix of variables that hold secrets of handlers.
const SECRET_PREFIX: &str = "WINDLASS_SECRET_";

/// The name under which a file says which schema an editor is to judge it by.
pub(super) const EDITOR_SCHEMA: &str = "$schema";

/// The variable in which a service's host gives the port to listen at.
const PORT: &str = "PORT";

/// The text that is printed in place of a secret.
const MASK: &str = "\"********\"";

/// The environment as it was found.
pub type Environment = BTreeMap<OsString, OsString>;

/// The sources of a configuration.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The file to read; `None` for that of the working directory, if there is one.
    pub file: Option<PathBuf>,
    pub working_directory: PathBuf,
    pub environment: Environment,
    pub flags: Vec<Flag>,
}

/// A key that was set on the command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Flag {
    /// The flag as it was written: `--listen`.
    pub name: &'static str,
    pub key: &'static str,
    pub value: String,
}

/// The problems of a configuration, each in one line that names the key, the place and the values that fit. Never shows a secret.
#[derive(Debug, thiserror::Error)]
#[error("{}", .problems.join("\n"))]
pub struct ConfigError {
    pub problems: Vec<String>,
    /// Whether one of them is of the command line.
    pub is_of_flags: bool,
}

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    Default,
    File { path: PathBuf, line: usize },
    Variable(String),
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::File { path, line } => write!(formatter, "from {}:{line}", path.display()),
            Self::Variable(name) => write!(formatter, "from the environment, {name}"),
            Self::Flag(name) => write!(formatter, "from {name}"),
        }
    }
}

/// A key's path, segment by segment.
type Segments = Vec<String>;

#[derive(Debug)]
struct Found {
    value: Value,
    origin: Origin,
}

/// All values of all sources, merged.
#[derive(Debug)]
pub(super) struct Overlay {
    keys: Vec<Key>,
    found: BTreeMap<Segments, Found>,
    environment: Environment,
    problems: Vec<(Origin, String)>,
    /// Variables that begin with `WINDLASS_` and mean nothing here.
    pub(super) ignored_variables: Vec<String>,
}

impl Overlay {
    pub(super) fn new(keys: Vec<Key>, sources: &Sources) -> Self {
        let mut overlay = Self {
            keys,
            found: BTreeMap::new(),
            environment: sources.environment.clone(),
            problems: Vec::new(),
            ignored_variables: Vec::new(),
        };
        let defaults = overlay.keys.iter().filter_map(|key| {
            let value = key.default.clone()?;
            let origin = Origin::Default;
            Some((segments(&key.path), Found { value, origin }))
        });
        overlay.found = defaults.collect();
        overlay.add_file(sources);
        overlay.add_port();
        overlay.add_environment();
        for flag in &sources.flags {
            let (path, origin) = (segments(flag.key), Origin::Flag(flag.name));
            match overlay.key(&path) {
                Some(_) => overlay.add_text(&path, &flag.value, origin),
                None => overlay.refuse_unknown(&path, origin),
            }
        }
        overlay
    }

    /// The typed tree. A value that does not fit is a problem, and is left out.
    pub(super) fn read<T: DeserializeOwned>(&mut self) -> T {
        loop {
            let error = match serde_path_to_error::deserialize(self.tree()) {
                Ok(tree) => return tree,
                Err(error) => error,
            };
            let path = error.path().iter().map(|segment| match segment {
                Segment::Map { key } => key.clone(),
                segment => segment.to_string(),
            });
            let path: Segments = path.collect();
            let cause = error.inner().message().replace('\n', ", ");
            self.refuse(&path, &cause);
        }
    }

    fn tree(&self) -> Value {
        let mut tree = Table::new();
        for (path, found) in &self.found {
            let (name, table) = path.split_last().expect("a key has a name");
            table_at(&mut tree, table).insert(name.clone(), found.value.clone());
        }
        // A section whose keys have no defaults is there without any, and so is a table of names of the user's.
        for key in &self.keys {
            let path = segments(&key.path);
            let name = path.iter().position(|segment| is_name(segment));
            let section = path.len().saturating_sub(1).min(1);
            table_at(&mut tree, &path[..name.unwrap_or(section)]);
        }
        Value::Table(tree)
    }

    /// Notes a problem at a path, and takes the values there back. Where the path is a key's, or an item's of its list, the key says
    /// which values fit.
    fn refuse(&mut self, path: &[String], cause: &str) {
        let is_full = self.is_full();
        let set = self.found.iter().filter(|(own, found)| {
            let is_there = path.starts_with(own) || own.starts_with(path);
            found.origin != Origin::Default && (is_there || is_full)
        });
        let refused: Vec<Segments> = set.map(|(own, _)| own.clone()).collect();
        let first = refused
            .first()
            .expect("the defaults fit their keys")
            .clone();
        if !path.starts_with(&first) {
            let origin = self.found[&first].origin.clone();
            let text = format!("{} ({origin}): {cause}", dotted(path));
            self.problems.push((origin, text));
        }
        for own in &refused {
            match path.starts_with(own) {
                true => {
                    self.refuse_value(own, None);
                }
                false => self.take_back(own),
            }
        }
    }

    /// Notes that a key has a value that it refuses, or that makes no sense beside others, and takes the value back. False where no
    /// source has set the key, so there is nothing to take back.
    pub(super) fn refuse_value(&mut self, path: &[String], cause: Option<&str>) -> bool {
        let (Some(found), Some(key)) = (self.found.get(path), self.key(path)) else {
            let text = format!("{} {}", dotted(path), cause.unwrap_or("is of no use"));
            self.problems.push((Origin::Default, text));
            return false;
        };
        let value = match key.is_secret {
            true => "…".to_owned(),
            false => shown(&found.value),
        };
        let cause = cause.map_or_else(|| format!("is not {}", key.takes), str::to_owned);
        let (name, origin) = (dotted(path), found.origin.clone());
        let text = format!("{name} has the value {value} ({origin}), which {cause}");
        self.problems.push((origin, text));
        self.take_back(path);
        true
    }

    /// Whether more mistakes were found than are reported. Looking for others would take long.
    pub(super) fn is_full(&self) -> bool {
        self.problems.len() > PROBLEMS_MAX
    }

    /// Leaves a key as if no source had set it.
    fn take_back(&mut self, path: &[String]) {
        self.found.remove(path);
        if let Some(value) = self.key(path).and_then(|key| key.default.clone()) {
            let origin = Origin::Default;
            self.found.insert(path.to_vec(), Found { value, origin });
        }
    }

    /// The words for where a key, or one of a table, was set. `None` where no source has set it, or one has set `auto`.
    pub(super) fn why(&self, path: &str) -> Option<String> {
        let path = segments(path);
        let mut set = self.found.iter().filter(|(own, found)| {
            let is_open = found.value.as_str() == Some("auto");
            own.starts_with(&path) && found.origin != Origin::Default && !is_open
        });
        let (own, found) = set.next()?;
        Some(match &found.origin {
            Origin::Variable(name) => format!("{name} is set"),
            origin => format!("{} is set ({origin})", dotted(own)),
        })
    }

    fn key(&self, path: &[String]) -> Option<&Key> {
        let mut keys = self.keys.iter();
        keys.find(|key| key.beyond(path) == Some(0))
    }

    /// All problems, those of the file in its order.
    pub(super) fn into_error(mut self) -> Result<Self, ConfigError> {
        if self.problems.is_empty() {
            return Ok(self);
        }
        self.problems.sort();
        let is_of_flag = |origin: &Origin| matches!(origin, Origin::Flag(_));
        let is_of_flags = self.problems.iter().any(|(origin, _)| is_of_flag(origin));
        let mut problems: Vec<String> = self.problems.into_iter().map(|(_, text)| text).collect();
        if problems.len() > PROBLEMS_MAX {
            problems.truncate(PROBLEMS_MAX);
            problems.push("there are more mistakes; mend these first".to_owned());
        }
        Err(ConfigError {
            problems,
            is_of_flags,
        })
    }

    fn add_file(&mut self, sources: &Sources) {
        let usual = sources.working_directory.join(FILE_NAME);
        let (path, shown) = match &sources.file {
            Some(path) => (sources.working_directory.join(path), path.clone()),
            None if usual.exists() => (usual, PathBuf::from(FILE_NAME)),
            None => return,
        };
        let text = match read_text(&path) {
            Ok(text) => text,
            Err(cause) => {
                let text = format!("the configuration {} {cause}", shown.display());
                let origin = match sources.file {
                    Some(_) => Origin::Flag("--config"),
                    None => Origin::Default,
                };
                return self.problems.push((origin, text));
            }
        };
        let starts: Vec<usize> = (text.match_indices('\n').map(|(end, _)| end + 1)).collect();
        let line = |offset: usize| starts.partition_point(|start| *start <= offset);
        let place = |offset| Origin::File {
            path: shown.clone(),
            line: line(offset) + 1,
        };
        let (tree, errors) = DeTable::parse_recoverable(&text);
        for error in errors.iter().take(PROBLEMS_MAX + 1) {
            let offset = error.span().map_or(0, |span| span.start);
            let start = line(offset).checked_sub(1).map_or(0, |line| starts[line]);
            let column = text
                .get(start..offset)
                .map_or(0, |text| text.chars().count())
                + 1;
            let (file, line) = (shown.display(), line(offset) + 1);
            let problem = error.message().replace('\n', ", ");
            let text = format!("{file}:{line}:{column}: {problem}");
            self.problems.push((place(offset), text));
        }
        // A broken file may be parsed into values that its author did not mean, so none of them counts.
        if errors.is_empty() {
            self.add_table(&mut Vec::new(), tree.into_inner(), &place);
        }
    }

    fn add_table(
        &mut self,
        path: &mut Segments,
        table: DeTable<'_>,
        place: &dyn Fn(usize) -> Origin,
    ) {
        for (name, value) in table {
            if self.is_full() {
                return;
            }
            let origin = place(name.span().start);
            path.push(name.into_inner().into_owned());
            let is_section = self.keys.iter().any(|key| key.beyond(path) > Some(0));
            if path.as_slice() == [EDITOR_SCHEMA] && matches!(value.get_ref(), DeValue::String(_)) {
                // The key is for editors alone.
            } else if let Some(key) = self.key(path) {
                let changed = match key.kind {
                    Kind::Plain => changed_number(value.get_ref()),
                    Kind::Text | Kind::Whole | Kind::Fraction | Kind::Flag | Kind::List => None,
                };
                if let Some((number, cause)) = changed {
                    let number = shortened(&number);
                    let text = format!(
                        "{} has the number {number} ({origin}), which {cause}",
                        dotted(path)
                    );
                    self.problems.push((origin, text));
                    path.pop();
                    continue;
                }
                match Value::deserialize(ValueDeserializer::from(value)) {
                    Ok(value) => {
                        self.found.insert(path.clone(), Found { value, origin });
                    }
                    Err(error) => {
                        let cause = error.message().replace('\n', ", ");
                        let text = format!("{} ({origin}) cannot be read: {cause}", dotted(path));
                        self.problems.push((origin, text));
                    }
                }
            } else if !is_section {
                self.refuse_unknown(path, origin);
            } else if let DeValue::Table(table) = value.into_inner() {
                self.add_table(path, table, place);
            } else {
                let text = format!(
                    "{} ({origin}) is not a table; docs/configuration.md lists the keys that it holds",
                    dotted(path)
                );
                self.problems.push((origin, text));
            }
            path.pop();
        }
    }

    fn refuse_unknown(&mut self, path: &[String], origin: Origin) {
        let nearest = cure(self.nearest(path));
        let text = format!("there is no key {} ({origin}); {nearest}", dotted(path));
        self.problems.push((origin, text));
    }

    fn add_environment(&mut self) {
        for (name, value) in self.environment.clone() {
            let Some(name) = name.to_str().filter(|name| name.starts_with("WINDLASS_")) else {
                continue;
            };
            let is_own = |key: &&Key| key.variable().as_deref() == Some(name);
            if let Some(secret) = name.strip_prefix(SECRET_PREFIX) {
                self.add_secret(secret, name, &value);
            } else if let Some(key) = self.keys.iter().find(is_own) {
                let path = segments(&key.path);
                self.add_variable(&path, name, &value);
            } else if let Some(nearest) = self.nearest_variable(name) {
                let origin = Origin::Variable(name.to_owned());
                let cure = cure(nearest);
                let text =
                    format!("there is no setting for the environment variable {name}; {cure}");
                self.problems.push((origin, text));
            } else {
                self.ignored_variables.push(name.to_owned());
            }
        }
    }

    /// A hosting service gives the port in this variable. Our own variables win over it.
    fn add_port(&mut self) {
        let is_set = |name: &str| {
            let value = self.environment.get(OsStr::new(name));
            value.is_some_and(|value| !value.is_empty())
        };
        let is_said = ["WINDLASS_SERVER_LISTEN", "WINDLASS_SERVER_PORT"].map(is_set);
        if let (Some(value), [false, false]) = (self.environment.get(OsStr::new(PORT)), is_said) {
            let value = value.clone();
            self.add_variable(&segments("server.port"), PORT, &value);
        }
    }

    /// Whether the first of two keys was set by a source that wins over the second's, or by the same one.
    pub(super) fn outranks(&self, path: &str, other: &str) -> bool {
        let rank = |path| {
            self.found
                .get(&segments(path))
                .map(|found| match found.origin {
                    Origin::Default => 0,
                    Origin::File { .. } => 1,
                    Origin::Variable(_) => 2,
                    Origin::Flag(_) => 3,
                })
        };
        rank(path).is_some_and(|own| Some(own) >= rank(other))
    }

    /// Whether no source has set a key.
    pub(super) fn is_default(&self, path: &str) -> bool {
        let found = self.found.get(&segments(path));
        found.is_none_or(|found| found.origin == Origin::Default)
    }

    /// Every key that has a value, by its path: the value, masked where it is secret, and its origin in words.
    pub(super) fn values(&self) -> BTreeMap<String, (Value, String)> {
        let values = self.found.iter().map(|(path, found)| {
            let is_secret = self.key(path).is_some_and(|key| key.is_secret);
            let value = match is_secret {
                true => Value::from(MASK.trim_matches('"')),
                false => found.value.clone(),
            };
            (dotted(path), (value, found.origin.to_string()))
        });
        values.collect()
    }

    fn add_secret(&mut self, secret: &str, name: &str, value: &OsStr) {
        match SecretName::try_from(secret.to_owned()) {
            Ok(_) => {
                let path = ["secrets", secret, "value"].map(str::to_owned);
                self.add_variable(&path, name, value);
            }
            Err(error) => {
                let text = format!("the environment variable {name} names no secret: {error}");
                let origin = Origin::Variable(name.to_owned());
                self.problems.push((origin, text));
            }
        }
    }

    /// An empty variable is how a shell takes one back.
    fn add_variable(&mut self, path: &[String], name: &str, value: &OsStr) {
        let origin = Origin::Variable(name.to_owned());
        match value.to_str() {
            Some("") => {}
            Some(text) => self.add_text(path, text, origin),
            None => {
                let text = format!(
                    "the environment variable {name} is no UTF-8 text; set it anew or remove it"
                );
                self.problems.push((origin, text));
            }
        }
    }

    /// Fills a key that is not set from the first of the variables that is; other programs use them too.
    pub(super) fn fall_back(&mut self, slot: &mut Option<Secret>, path: &str, variables: &[&str]) {
        let path = segments(path);
        for name in variables {
            let Some(value) = self.environment.get(OsStr::new(name)).cloned() else {
                continue;
            };
            let origin = Origin::Variable((*name).to_owned());
            // One variable may set several keys; its problem is reported once.
            if slot.is_some() || self.problems.iter().any(|(place, _)| *place == origin) {
                return;
            }
            self.add_variable(&path, name, &value);
            if let Some(Value::String(text)) = self.found.get(&path).map(|found| &found.value) {
                *slot = Secret::try_from(text.clone()).ok();
                if slot.is_none() {
                    self.refuse_value(&path, None);
                    return;
                }
            }
        }
    }

    /// Reads a text as the kind of value that the key has. The key itself refuses a text of another kind.
    fn add_text(&mut self, path: &[String], text: &str, origin: Origin) {
        let (trimmed, kind) = (text.trim(), self.key(path).map(|key| key.kind));
        let value = match kind.unwrap_or(Kind::Text) {
            Kind::Text | Kind::Plain => None,
            Kind::Whole => trimmed.parse().ok().map(Value::Integer),
            Kind::Fraction => trimmed.parse().ok().map(Value::Float),
            Kind::Flag => trimmed.parse().ok().map(Value::Boolean),
            Kind::List => {
                let items = trimmed.split(',').map(str::trim);
                let items = items.filter(|item| !item.is_empty()).map(Value::from);
                Some(Value::Array(items.collect()))
            }
        };
        let value = value.unwrap_or_else(|| Value::from(text));
        self.found.insert(path.to_vec(), Found { value, origin });
    }

    /// The key that an unknown path may mean: the only one of that name beneath the same table, else one of the table that is written
    /// nearly alike, else the only one of that name anywhere.
    fn nearest(&self, path: &[String]) -> Option<String> {
        let (own, table) = path.split_last()?;
        let beneath = || self.keys.iter().filter(|key| key.beyond(table) > Some(0));
        let is_namesake = |key: &&Key| key.path.rsplit('.').next() == Some(own);
        if let Some(namesake) = only(beneath().filter(is_namesake)) {
            let mut names = table
                .iter()
                .cloned()
                .map(Some)
                .chain(std::iter::repeat(None));
            let named = namesake.path.split('.').map(|own| match names.next() {
                Some(Some(name)) => name,
                _ => own.to_owned(),
            });
            return Some(dotted(&named.collect::<Segments>()));
        }
        let names = beneath().filter_map(|key| key.path.split('.').nth(table.len()));
        if let Some(name) = alike(names, own) {
            return Some(dotted(&[table, &[name.to_owned()]].concat()));
        }
        // A path that holds names of the user's is of another table of theirs.
        let namesake = only(self.keys.iter().filter(is_namesake))?;
        (!namesake.path.split('.').any(is_name)).then(|| namesake.path.clone())
    }

    /// `None` for a variable that speaks of none of our sections; else the one of its section that may be meant.
    fn nearest_variable(&self, name: &str) -> Option<Option<String>> {
        let section = self.keys.iter().find_map(|key| {
            let section = key.path.split('.').next()?.to_ascii_uppercase();
            let prefix = format!("WINDLASS_{section}_");
            name.starts_with(&prefix).then_some(prefix)
        })?;
        let known: Vec<String> = self.keys.iter().filter_map(Key::variable).collect();
        let names = known
            .iter()
            .filter_map(|known| known.strip_prefix(&section));
        let own = name.strip_prefix(&section)?;
        Some(alike(names, own).map(|name| format!("{section}{name}")))
    }

    /// The effective tree as TOML, each value with its origin as a comment, and secrets masked.
    pub(super) fn to_toml(&self) -> String {
        let mut tables: Vec<String> = Vec::new();
        let mut ranks: BTreeMap<Segments, usize> = BTreeMap::new();
        for key in &self.keys {
            let own = segments(&key.path);
            let set = self
                .found
                .iter()
                .filter(|(path, _)| key.beyond(path) == Some(0));
            let mut lines: Vec<(&[String], String)> = set
                .map(|(path, found)| {
                    let value = match key.is_secret {
                        true => MASK.to_owned(),
                        false => found.value.to_string(),
                    };
                    let name = dotted(&path[path.len() - 1..]);
                    (
                        path.as_slice(),
                        format!("{name} = {value}  # {}\n", found.origin),
                    )
                })
                .collect();
            if lines.is_empty() && !own.iter().any(|segment| is_name(segment)) {
                let name = dotted(&own[own.len() - 1..]);
                lines.push((&own, format!("# {name} is not set\n")));
            }
            for (path, line) in lines {
                let table = &path[..path.len() - 1];
                let rank = *ranks.entry(table.to_vec()).or_insert(tables.len());
                if rank == tables.len() {
                    tables.push(format!("[{}]\n", dotted(table)));
                }
                tables[rank].push_str(&line);
            }
        }
        tables.join("\n")
    }
}

fn table_at<'t>(tree: &'t mut Table, path: &[String]) -> &'t mut Table {
    path.iter().fold(tree, |table, name| {
        let inner = table.entry(name).or_insert_with(|| Table::new().into());
        inner.as_table_mut().expect("no key is beneath another one")
    })
}

fn segments(path: &str) -> Segments {
    path.split('.').map(str::to_owned).collect()
}

/// A path as TOML writes it, with the segments in quotes that are no bare keys.
fn dotted(path: &[String]) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let segments = path
        .iter()
        .map(|segment| match segment.bytes().all(is_bare) {
            true if !segment.is_empty() => segment.clone(),
            _ => Value::from(segment.as_str()).to_string(),
        });
    segments.collect::<Vec<_>>().join(".")
}

fn cure(nearest: Option<String>) -> String {
    match nearest {
        Some(nearest) => format!("the nearest one is {nearest}"),
        None => "docs/configuration.md lists those that there are".to_owned(),
    }
}

/// The name that differs least from one, where that is in no more than half of it.
fn alike<'k>(names: impl Iterator<Item = &'k str>, own: &str) -> Option<&'k str> {
    let (distance, name) = names
        .map(|name| (edit_distance(name, own), name))
        .min_by_key(|(distance, _)| *distance)?;
    let length = name.len().max(own.len()).min(COMPARED_BYTES);
    (distance * 2 <= length).then_some(name)
}

fn only<'k>(mut keys: impl Iterator<Item = &'k Key>) -> Option<&'k Key> {
    let first = keys.next()?;
    keys.next().is_none().then_some(first)
}

/// Characters of a number that a message shows.
const NUMBER_CHARACTERS_MAX: usize = 60;

fn shortened(number: &str) -> String {
    match number.char_indices().nth(NUMBER_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &number[..end]),
        None => number.to_owned(),
    }
}

/// The first number of a value, or of a list, that would become another one when it is read, and why.
fn changed_number(value: &DeValue<'_>) -> Option<(String, &'static str)> {
    const LONG: &str = "has more than 64 bits; write one from -9223372036854775808 to 9223372036854775807, or write the number into the \
                        condition itself, which takes any";
    const FINE: &str = "has more digits than are kept; write 15 at most, or write the number into the condition itself, which takes any";
    match value {
        DeValue::Integer(number) => {
            let is_kept = i64::from_str_radix(number.as_str(), number.radix()).is_ok();
            (!is_kept).then(|| (number.to_string(), LONG))
        }
        DeValue::Float(number) => {
            let is_kept = is_kept(number.as_str());
            (!is_kept).then(|| (number.as_str().to_owned(), FINE))
        }
        DeValue::Array(items) => items.iter().find_map(|item| changed_number(item.get_ref())),
        DeValue::String(_) | DeValue::Boolean(_) | DeValue::Datetime(_) | DeValue::Table(_) => None,
    }
}

/// Whether the nearest double is written as these digits. Also true for a value that is no number, such as `inf`: its key refuses it.
fn is_kept(written: &str) -> bool {
    let digits = written.strip_prefix('+').unwrap_or(written);
    let exact = digits.parse::<serde_json::Number>();
    let double = digits
        .parse::<f64>()
        .ok()
        .and_then(serde_json::Number::from_f64);
    match (exact, double) {
        (Ok(exact), Some(double)) => number::same(&exact, &double),
        (Ok(_), None) => false,
        (Err(_), _) => true,
    }
}

fn read_text(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(|cause| format!("cannot be read: {cause}; name another file with --config"))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!(
            "is over {FILE_BYTES_MAX} bytes long; it is meant to be written by hand"
        ));
    }
    String::from_utf8(bytes).map_err(|_| "is no UTF-8 text; save it as such".to_owned())
}

/// A value in one line, cut where it is long, without texts that may hold a password or a key in an address.
fn shown(value: &Value) -> String {
    let mut text = value.to_string().replace('\n', " ");
    if text.contains(['@', '?', '#']) {
        return "…".to_owned();
    }
    if let Some((end, _)) = text.char_indices().nth(80) {
        text.truncate(end);
        text.push('…');
    }
    text
}
