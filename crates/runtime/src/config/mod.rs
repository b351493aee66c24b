//! The configuration: one typed tree from defaults, `windlass.toml`, the environment and flags, each value checked and
//! each with its origin. Owns the keys and their rules; opens no socket and reads no file but its own.

mod error;
mod keys;
mod knowledge;
mod layers;
mod models;
mod nearest;
mod path;
mod print;
mod settings;
mod text;
mod values;

pub use error::{BadValue, ConfigError};
pub use keys::{Key, Kind, keys};
pub use knowledge::{EmbedderKind, Knowledge, KnowledgeLimits, NamespaceReaders};
pub use layers::{Environment, Flag, Origin, Sources};
pub use models::ModelChange;
pub use path::KeyPath;
pub use settings::{
    Audit, Config, Folders, Log, LogFormat, LogLevel, Provider, ProviderKind, Server,
    SpeechSettings, Vertex, Voice,
};
pub use text::{HttpUrl, Text, TextProvider};
pub use values::{
    AllowedOrigin, Header, ListenAddress, Name, ProviderUrl, Secret, Temperature, WebAddress,
    Whole, Words,
};

use layers::Values;

/// The name of the file that is read from the working directory where no other one is named.
pub const FILE_NAME: &str = "windlass.toml";

/// A configuration, and where each of its values comes from.
#[derive(Debug)]
pub struct Loaded {
    pub config: Config,
    /// Variables that begin with `WINDLASS_` and mean nothing here.
    pub ignored_variables: Vec<String>,
    values: Values,
}

impl Loaded {
    /// Merges the sources and checks every value.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong: a file that cannot be read, a key that nobody knows, a value that its key refuses.
    pub fn load(sources: &Sources) -> Result<Self, ConfigError> {
        let mut values = Values::merge(sources)?;
        let config = Config::read(&mut values)?;
        Ok(Self {
            config,
            ignored_variables: values.take_ignored_variables(),
            values,
        })
    }

    /// The effective tree as TOML, each value with its origin as a comment, and secrets masked.
    pub fn to_toml(&self) -> String {
        print::to_toml(&self.values)
    }
}

#[cfg(test)]
mod tests;
