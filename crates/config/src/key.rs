//! A key, and how a structure of the configuration declares its keys: a section gives the name, the default and the meaning of each
//! key, and the key's type says which values it takes. Knows no section.

use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use toml::Value;
use windlass_session::limits::{LIMIT_MAX, Limits, TurnLimits};

/// One key. A segment in capitals, as in `tools.TOOL.timeout_ms`, stands for any name.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    pub path: String,
    pub kind: Kind,
    /// The values that fit, as in "a whole number from 1 to 10".
    pub takes: String,
    pub meaning: String,
    /// `None` for a key that has no value by default.
    pub default: Option<Value>,
    pub is_secret: bool,
    /// The least and the greatest number that fit, where they are the whole rule.
    pub bounds: Option<(u64, u64)>,
    /// The words that fit, if no other value does; of a list, the words for its items.
    pub choices: &'static [&'static str],
}

/// The form of a value. It says how the text of a variable or a flag is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Whole,
    Fraction,
    Flag,
    List,
    /// A text, a number, a flag or a list, as its author writes it.
    Plain,
}

/// A type whose values are keys: one key, or those of a section.
pub(super) trait Setting {
    fn keys(path: &str, default: Option<Value>, meaning: &str, keys: &mut Vec<Key>);
}

/// A type whose value is that of one key.
pub(super) trait Leaf {
    const KIND: Kind = Kind::Text;
    const IS_SECRET: bool = false;

    fn takes() -> String;

    fn bounds() -> Option<(u64, u64)> {
        None
    }

    fn choices() -> &'static [&'static str] {
        &[]
    }
}

/// A type whose values are names of the user's in a path.
pub(super) trait Named {
    const PLACEHOLDER: &str;
}

impl<L: Leaf> Setting for L {
    fn keys(path: &str, default: Option<Value>, meaning: &str, keys: &mut Vec<Key>) {
        keys.push(Key {
            path: path.to_owned(),
            kind: L::KIND,
            takes: L::takes(),
            meaning: meaning.trim().to_owned(),
            default,
            is_secret: L::IS_SECRET,
            bounds: L::bounds(),
            choices: L::choices(),
        });
    }
}

impl<S: Setting> Setting for Option<S> {
    fn keys(path: &str, default: Option<Value>, meaning: &str, keys: &mut Vec<Key>) {
        S::keys(path, default, meaning, keys);
    }
}

impl<N: Named, S: Setting> Setting for BTreeMap<N, S> {
    fn keys(path: &str, default: Option<Value>, meaning: &str, keys: &mut Vec<Key>) {
        S::keys(&join(path, N::PLACEHOLDER), default, meaning, keys);
    }
}

impl<L: Leaf> Leaf for Vec<L> {
    const KIND: Kind = Kind::List;

    fn takes() -> String {
        format!("a list of items that are each {}", L::takes())
    }

    fn choices() -> &'static [&'static str] {
        L::choices()
    }
}

impl<L: Leaf> Leaf for BTreeSet<L> {
    const KIND: Kind = Kind::List;

    fn takes() -> String {
        Vec::<L>::takes()
    }

    fn choices() -> &'static [&'static str] {
        L::choices()
    }
}

/// The session core owns its limits; their names, meanings and defaults follow it by themselves.
impl Setting for Limits {
    fn keys(path: &str, default: Option<Value>, _: &str, keys: &mut Vec<Key>) {
        let mut add = |path: &str, defaults: &Value, meanings: &[(&str, &str)]| {
            for (name, meaning) in meanings {
                keys.push(Key {
                    path: join(path, name),
                    kind: Kind::Whole,
                    takes: whole(Self::least(name), LIMIT_MAX),
                    meaning: meaning.trim().to_owned(),
                    default: defaults.get(name).cloned(),
                    is_secret: false,
                    bounds: Some((Self::least(name), LIMIT_MAX)),
                    choices: &[],
                });
            }
        };
        let defaults = default.expect("a section gives limits their defaults");
        add(path, &defaults, Self::MEANINGS);
        add(&join(path, "turn"), &defaults["turn"], TurnLimits::MEANINGS);
    }
}

/// Whether a segment of a key's path stands for any name.
pub(super) fn is_name(segment: &str) -> bool {
    segment.bytes().all(|byte| byte.is_ascii_uppercase())
}

pub(super) fn whole(min: u64, max: u64) -> String {
    format!("a whole number from {min} to {max}")
}

pub(super) fn join(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        _ => format!("{path}.{name}"),
    }
}

/// A default as TOML has it.
pub(super) fn preset(default: impl Serialize) -> Value {
    Value::try_from(default).expect("defaults are numbers, texts, flags and lists")
}

/// Declares a section of the configuration: its structure, and its keys in the same order. A key without a default is
/// optional. Fields `beside` the keys are worked out from them.
macro_rules! section {
    (@default) => { None };
    (@default $default:expr) => { Some($crate::key::preset($default)) };
    (
        $(#[$about:meta])*
        pub struct $name:ident {
            $($(#[doc = $meaning:literal])+ $key:ident: $type:ty $(= $default:expr)?,)+
        }
        $(beside { $($(#[$beside_about:meta])* $beside:ident: $beside_type:ty,)+ })?
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, serde::Deserialize)]
        pub struct $name {
            $($(#[doc = $meaning])+ pub $key: $type,)+
            $($($(#[$beside_about])* #[serde(skip)] pub $beside: $beside_type,)+)?
        }

        impl $crate::key::Setting for $name {
            fn keys(path: &str, _: Option<toml::Value>, _: &str, keys: &mut Vec<$crate::Key>) {
                $(
                    <$type as $crate::key::Setting>::keys(
                        &$crate::key::join(path, stringify!($key)),
                        $crate::key::section!(@default $($default)?),
                        concat!($($meaning),+),
                        keys,
                    );
                )+
            }
        }
    };
}
pub(super) use section;

impl Key {
    /// The environment variable that sets it; `None` for keys whose path holds a name of the user's.
    pub fn variable(&self) -> Option<String> {
        let variable = || format!("WINDLASS_{}", self.path.replace('.', "_").to_uppercase());
        (!self.path.split('.').any(is_name)).then(variable)
    }

    /// How many segments the key has beyond a path that leads to it; none where the path is its own.
    pub(super) fn beyond(&self, path: &[String]) -> Option<usize> {
        let mut own = self.path.split('.');
        path.iter()
            .all(|segment| own.next().is_some_and(|own| own == segment || is_name(own)))
            .then(|| own.count())
    }
}
