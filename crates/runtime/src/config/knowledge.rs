//! The section `knowledge`: how records are read and found, and who may read which namespace. Knows the rules between its
//! keys; opens no folder and calls no service.

use super::error::ConfigError;
use super::layers::Values;
use super::path::KeyPath;
use super::settings::set;
use super::values::{Name, Problem, Secret, Setting, WebAddress, Whole, Words, choices};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use toml::Value;

/// How records are read and found.
#[derive(Clone, Debug)]
pub struct Knowledge {
    pub embedder: EmbedderKind,
    /// The service's model; `None` for the one that suits the service.
    pub embedder_model: Option<Name>,
    pub embedder_url: Option<WebAddress>,
    /// Numbers of a vector; `None` for as many as suit the model.
    pub embedder_dimension: Option<Whole<8, 4_096>>,
    pub embedder_key: Option<Secret>,
    /// The database that holds the records; `None` for the folder.
    pub postgres: Option<Secret>,
    /// Vectors in the database that are compared one by one; more of them get an approximate index.
    pub postgres_exact_max: Whole<1, 10_000_000>,
    /// A PEM file with the certificates of the authorities that the database's is checked against; `None` for the public
    /// ones.
    pub postgres_root_certificate: Option<PathBuf>,
    /// How long an answer waits for its question's vector.
    pub wait_voice_ms: Whole<0, 10_000>,
    pub wait_text_ms: Whole<0, 60_000>,
    /// Whether the server takes up changes of the folder while it runs.
    pub watch: bool,
    pub limits: KnowledgeLimits,
    pub namespaces: BTreeMap<String, NamespaceReaders>,
}

/// What makes vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmbedderKind {
    /// The local model where it was added to the data folder, else none.
    Auto,
    None,
    Local,
    OpenAi,
    Gemini,
}

choices!(EmbedderKind {
    "auto" => Self::Auto,
    "none" => Self::None,
    "local" => Self::Local,
    "openai" => Self::OpenAi,
    "gemini" => Self::Gemini,
});

/// How much a folder of records may hold.
#[derive(Clone, Copy, Debug)]
pub struct KnowledgeLimits {
    pub file_bytes_max: Whole<1, 67_108_864>,
    pub data_file_bytes_max: Whole<1, 1_073_741_824>,
    pub files_max: Whole<1, 10_000_000>,
    pub records_max: Whole<1, 10_000_000>,
}

/// Who may read a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceReaders {
    Everybody,
    SignedIn,
    Owners(BTreeSet<String>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadersKind {
    Everybody,
    SignedIn,
    Owners,
}

choices!(ReadersKind {
    "everybody" => Self::Everybody,
    "signed_in" => Self::SignedIn,
    "owners" => Self::Owners,
});

impl Setting for BTreeSet<String> {
    fn read(value: &Value) -> Result<Self, Problem> {
        let not_users = || Problem::new("is no list of user ids", "write a list such as [\"ada\"]");
        let items = value.as_array().ok_or_else(not_users)?;
        items
            .iter()
            .map(|item| Words::read(item).map(|words| words.as_str().to_owned()))
            .collect::<Result<Self, Problem>>()
            .map_err(|_| not_users())
    }
}

pub(super) fn knowledge(values: &mut Values) -> Result<Knowledge, ConfigError> {
    let embedder = values.need("knowledge.embedder")?;
    let embedder_url: Option<WebAddress> = set(values, "knowledge.embedder_url")?;
    let variables: &[&str] = match embedder {
        // A service of one's own gets the key that was set for it, and no company's.
        _ if embedder_url.is_some() => &[],
        EmbedderKind::OpenAi => &["OPENAI_API_KEY"],
        EmbedderKind::Gemini => &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        EmbedderKind::Auto | EmbedderKind::None | EmbedderKind::Local => &[],
    };
    for variable in variables {
        values.fall_back_to_variable("knowledge.embedder_key", variable)?;
    }
    Ok(Knowledge {
        embedder,
        embedder_model: set(values, "knowledge.embedder_model")?,
        embedder_url,
        embedder_dimension: set(values, "knowledge.embedder_dimension")?,
        embedder_key: set(values, "knowledge.embedder_key")?,
        postgres: set(values, "knowledge.postgres")?,
        postgres_exact_max: values.need("knowledge.postgres_exact_max")?,
        postgres_root_certificate: set(values, "knowledge.postgres_root_certificate")?,
        wait_voice_ms: values.need("knowledge.wait_voice_ms")?,
        wait_text_ms: values.need("knowledge.wait_text_ms")?,
        watch: values.need("knowledge.watch")?,
        limits: KnowledgeLimits {
            file_bytes_max: values.need("knowledge.file_bytes_max")?,
            data_file_bytes_max: values.need("knowledge.data_file_bytes_max")?,
            files_max: values.need("knowledge.files_max")?,
            records_max: values.need("knowledge.records_max")?,
        },
        namespaces: namespaces(values)?,
    })
}

/// Bytes of a namespace's name, at most, as in records.
const NAMESPACE_BYTES_MAX: usize = 63;

/// Whether a record can be in a namespace of that name: the rule of the knowledge base.
fn is_namespace(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && name.len() <= NAMESPACE_BYTES_MAX
}

fn namespaces(values: &Values) -> Result<BTreeMap<String, NamespaceReaders>, ConfigError> {
    let mut namespaces = BTreeMap::new();
    for name in values.names("knowledge.namespaces") {
        let section = KeyPath::from("knowledge.namespaces").child(&name);
        // It would protect nothing, least of all what whoever wrote it had in mind.
        if !is_namespace(&name) {
            return Err(ConfigError::BadNamespace {
                key: section.to_string(),
                bytes_max: NAMESPACE_BYTES_MAX,
            });
        }
        let (kind_path, owners_path) = (section.child("readers"), section.child("owners"));
        let kind: Option<ReadersKind> = values.get(&kind_path)?;
        let owners: Option<BTreeSet<String>> = values.get(&owners_path)?;
        let readers = match (kind, owners) {
            (Some(ReadersKind::Owners) | None, Some(owners)) if !owners.is_empty() => {
                NamespaceReaders::Owners(owners)
            }
            (Some(ReadersKind::Owners), _) => {
                let problem = Problem::new(
                    "names no owners",
                    "list them under owners beside it, as in owners = [\"ada\"]",
                );
                return Err(values.refuse_at(&kind_path, problem));
            }
            (_, Some(_)) => {
                let problem = Problem::new(
                    "is of no use with those readers",
                    "write readers = \"owners\", or leave one of the two out",
                );
                return Err(values.refuse_at(&owners_path, problem));
            }
            (Some(ReadersKind::SignedIn), None) => NamespaceReaders::SignedIn,
            (Some(ReadersKind::Everybody) | None, None) => NamespaceReaders::Everybody,
        };
        namespaces.insert(name, readers);
    }
    Ok(namespaces)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Case, NOTHING, load};

    fn refusal_of(name: &str) -> Option<String> {
        let file = format!("[knowledge.namespaces.{name}]\nreaders = \"signed_in\"");
        let file = file.as_str();
        let loaded = load(&Case { file, ..NOTHING });
        loaded.err().map(|error| error.to_string())
    }

    #[test]
    fn a_rule_for_a_namespace_that_no_record_can_have_is_refused() {
        assert_eq!(
            refusal_of("Staff").unwrap(),
            "knowledge.namespaces.Staff names no namespace that a record can have; names have at most 63 small letters, \
             digits and underscores and begin with a letter, as in knowledge.namespaces.staff"
        );
        let (longest, longer) = ("a".repeat(63), "a".repeat(64));
        for name in [
            "my-staff", "7up", "_a", "\"a b\"", "\"a.b\"", "\"é\"", &longer,
        ] {
            let said = refusal_of(name).unwrap_or_default();
            assert!(said.starts_with("knowledge.namespaces."), "{name}: {said}");
            assert!(said.contains(" names no namespace"), "{name}: {said}");
        }
        for name in ["staff", "a", "a_7", &longest] {
            assert_eq!(refusal_of(name), None, "{name}");
        }
    }
}
