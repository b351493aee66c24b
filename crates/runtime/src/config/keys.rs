//! The list of all keys with their defaults: what a file, the environment and `docs/configuration.md` may speak of.

use super::path::{KeyPath, segment_text};
use toml::Value;
use windlass_provider::gemini_live::profile::DEFAULT_MODEL;
use windlass_session::limits::Limits;
use windlass_tool::kind::Mode;

/// One key. A segment `*` of its path stands for any name.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    pub path: String,
    pub kind: Kind,
    /// `None` where the key is not set unless somebody sets it.
    pub default: Option<Value>,
    pub is_secret: bool,
}

/// What a value looks like, so that the text of an environment variable can be read as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Whole,
    Fraction,
    Flag,
    List,
}

/// A default as it is written below.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Preset {
    Unset(Kind),
    Secret,
    Text(&'static str),
    Whole(i64),
    Flag(bool),
    EmptyList,
}

use Preset::{EmptyList, Flag, Secret, Text, Unset, Whole};

const ROWS: &[(&str, Preset)] = &[
    ("server.listen", Text("127.0.0.1:8080")),
    ("server.allowed_origins", EmptyList),
    ("server.user_header", Unset(Kind::Text)),
    ("server.sessions_max", Whole(1_000)),
    ("server.connections_max", Whole(4_096)),
    ("server.shutdown_seconds", Whole(30)),
    ("server.worker_threads", Unset(Kind::Whole)),
    ("folders.tools", Text("tools")),
    ("folders.knowledge", Text("kb")),
    ("folders.data", Text("data")),
    ("folders.prompts", Text("prompts")),
    ("knowledge.embedder", Text("auto")),
    ("knowledge.embedder_model", Unset(Kind::Text)),
    ("knowledge.embedder_url", Unset(Kind::Text)),
    ("knowledge.embedder_dimension", Unset(Kind::Whole)),
    ("knowledge.embedder_key", Secret),
    ("knowledge.postgres", Secret),
    ("knowledge.postgres_exact_max", Whole(10_000)),
    ("knowledge.postgres_root_certificate", Unset(Kind::Text)),
    ("knowledge.wait_voice_ms", Whole(25)),
    ("knowledge.wait_text_ms", Whole(1_000)),
    ("knowledge.watch", Flag(true)),
    ("knowledge.file_bytes_max", Whole(1_048_576)),
    ("knowledge.data_file_bytes_max", Whole(33_554_432)),
    ("knowledge.files_max", Whole(100_000)),
    ("knowledge.records_max", Whole(200_000)),
    ("knowledge.namespaces.*.readers", Unset(Kind::Text)),
    ("knowledge.namespaces.*.owners", Unset(Kind::List)),
    ("provider.kind", Text("auto")),
    ("provider.model", Text(DEFAULT_MODEL)),
    ("provider.url", Unset(Kind::Text)),
    ("provider.api_version", Unset(Kind::Text)),
    ("provider.api_key", Secret),
    ("provider.api_key_env", Unset(Kind::Text)),
    ("provider.ephemeral_token", Secret),
    ("provider.temperature", Unset(Kind::Fraction)),
    ("provider.output_tokens_max", Unset(Kind::Whole)),
    ("provider.thinking_level", Unset(Kind::Text)),
    ("provider.thinking_budget_tokens", Unset(Kind::Whole)),
    ("provider.context_compression", Flag(true)),
    ("provider.compression_trigger_tokens", Unset(Kind::Whole)),
    ("provider.compression_target_tokens", Unset(Kind::Whole)),
    ("provider.vertex.location", Unset(Kind::Text)),
    ("provider.vertex.project", Unset(Kind::Text)),
    ("provider.vertex.access_token", Secret),
    ("provider.vertex.quota_project", Unset(Kind::Text)),
    ("voice.name", Unset(Kind::Text)),
    ("voice.language", Unset(Kind::Text)),
    ("voice.transcribe_input", Flag(true)),
    ("voice.transcribe_output", Flag(true)),
    ("voice.barge_in", Flag(true)),
    ("voice.start_sensitivity", Unset(Kind::Text)),
    ("voice.end_sensitivity", Unset(Kind::Text)),
    ("voice.prefix_padding_ms", Unset(Kind::Whole)),
    ("voice.silence_ms", Unset(Kind::Whole)),
    ("voice.image_bytes_max", Whole(1_048_576)),
    ("voice.guides_tokens_max", Whole(4_000)),
    ("text.provider", Text("auto")),
    ("text.model", Unset(Kind::Text)),
    ("text.fallback_models", EmptyList),
    ("text.summary_model", Unset(Kind::Text)),
    ("text.url", Unset(Kind::Text)),
    ("text.api_key", Secret),
    ("text.api_key_env", Unset(Kind::Text)),
    ("text.temperature", Unset(Kind::Fraction)),
    ("text.output_tokens_max", Unset(Kind::Whole)),
    ("text.thinking_level", Unset(Kind::Text)),
    ("text.thinking_budget_tokens", Unset(Kind::Whole)),
    ("text.history_tokens_max", Whole(32_000)),
    ("text.request_retries_max", Whole(2)),
    ("text.requests_max", Whole(24)),
    ("text.turn_seconds", Whole(300)),
    ("text.request_bytes_max", Whole(6_291_456)),
    ("text.images_max", Whole(8)),
    ("text.images_bytes_max", Whole(3_145_728)),
    ("text.conversations_max", Whole(10_000)),
    ("text.conversation_idle_seconds", Whole(86_400)),
    ("text.guides_tokens_max", Whole(12_000)),
    ("models.*.calls", Unset(Kind::Text)),
    ("models.*.scheduling", Unset(Kind::Flag)),
    ("models.*.declaration", Unset(Kind::Text)),
    ("models.*.answers", Unset(Kind::Text)),
    ("models.*.text_input", Unset(Kind::Text)),
    ("models.*.history", Unset(Kind::Text)),
    ("models.*.resumption", Unset(Kind::Flag)),
    ("models.*.hold_microphone", Unset(Kind::Flag)),
    ("models.*.thinking", Unset(Kind::Text)),
    ("models.*.vision", Unset(Kind::Flag)),
    ("models.*.context_tokens_max", Unset(Kind::Whole)),
    ("models.*.output_limit", Unset(Kind::Text)),
    ("models.*.stream_usage", Unset(Kind::Flag)),
    ("models.*.tool_choice", Unset(Kind::Flag)),
    ("models.*.parallel_tool_calls", Unset(Kind::Flag)),
    ("models.*.prompt_cache", Unset(Kind::Flag)),
    ("models.*.reasoning_effort", Unset(Kind::Flag)),
    ("models.*.reasoning", Unset(Kind::Text)),
    ("models.*.thought_signatures", Unset(Kind::Flag)),
    ("models.*.call_ids", Unset(Kind::Text)),
    ("models.*.user_after_tool", Unset(Kind::Flag)),
    ("tools.*.requires_confirmation", Unset(Kind::Flag)),
    ("tools.*.allowed_modes", Unset(Kind::List)),
    ("tools.*.timeout_ms", Unset(Kind::Whole)),
    ("tools.*.rate_limit.calls", Unset(Kind::Whole)),
    ("tools.*.rate_limit.window_ms", Unset(Kind::Whole)),
    ("audit.enabled", Flag(true)),
    ("audit.path", Unset(Kind::Text)),
    ("audit.arguments", Flag(false)),
    ("audit.file_bytes_max", Whole(100_000_000)),
    ("store.effect_hours", Whole(24)),
    ("store.effects_max", Whole(1_000)),
    ("store.receipt_bytes_max", Whole(262_144)),
    ("store.questions_max", Whole(20)),
    ("store.question_bytes_max", Whole(65_536)),
    ("store.conversation_hours", Whole(24)),
    ("store.conversations_max", Whole(100_000)),
    ("store.entries_max", Whole(2_000)),
    ("store.entry_bytes_max", Whole(262_144)),
    ("store.leg_bytes_max", Whole(1_048_576)),
    ("store.landing_ms", Whole(60_000)),
    ("journal.enabled", Flag(false)),
    ("journal.folder", Unset(Kind::Text)),
    ("journal.file_bytes_max", Whole(100_000_000)),
    ("journal.files_max", Whole(100)),
    ("log.level", Text("info")),
    ("log.format", Text("text")),
];

/// All keys, section by section.
pub fn keys() -> Vec<Key> {
    let mut keys = Vec::with_capacity(ROWS.len() + 48);
    for (path, default) in ROWS {
        keys.push(key(path, *default));
        // The session core owns its limits; their keys and defaults follow it by themselves.
        match *path {
            "voice.guides_tokens_max" => limits("voice.limits", Mode::Voice, &mut keys),
            "text.guides_tokens_max" => limits("text.limits", Mode::Text, &mut keys),
            _ => {}
        }
    }
    keys
}

fn key(path: &str, default: Preset) -> Key {
    let (kind, value, is_secret) = match default {
        Unset(kind) => (kind, None, false),
        Secret => (Kind::Text, None, true),
        Text(text) => (Kind::Text, Some(Value::String(text.to_owned())), false),
        Whole(number) => (Kind::Whole, Some(Value::Integer(number)), false),
        Flag(flag) => (Kind::Flag, Some(Value::Boolean(flag)), false),
        EmptyList => (Kind::List, Some(Value::Array(Vec::new())), false),
    };
    Key {
        path: path.to_owned(),
        kind,
        default: value,
        is_secret,
    }
}

fn limits(path: &str, mode: Mode, keys: &mut Vec<Key>) {
    let limits = Value::try_from(Limits::of(mode)).expect("limits are a tree of numbers");
    leaves(path, &limits, keys);
}

/// Numbers before tables, as TOML has to have them.
fn leaves(path: &str, value: &Value, keys: &mut Vec<Key>) {
    let Value::Table(table) = value else {
        keys.push(Key {
            path: path.to_owned(),
            kind: Kind::Whole,
            default: Some(value.clone()),
            is_secret: false,
        });
        return;
    };
    let (tables, numbers): (Vec<_>, Vec<_>) = table.iter().partition(|(_, value)| value.is_table());
    for (name, value) in numbers.into_iter().chain(tables) {
        leaves(&format!("{path}.{name}"), value, keys);
    }
}

impl Key {
    /// The environment variable that sets it; `None` for keys whose path holds a name of the user's.
    pub fn variable(&self) -> Option<String> {
        (!self.path.contains('*')).then(|| {
            format!(
                "WINDLASS_{}",
                self.path.replace('.', "_").to_ascii_uppercase()
            )
        })
    }

    /// What stands behind this key's section in the name of a variable that speaks of it: `LISTEN` of `WINDLASS_SERVER_LISTEN`.
    pub(super) fn own_of_variable<'a>(&self, name: &'a str) -> Option<&'a str> {
        let section = self.path.split('.').next().unwrap_or_default();
        name.strip_prefix("WINDLASS_")?
            .strip_prefix(section.to_ascii_uppercase().as_str())?
            .strip_prefix('_')
    }

    /// Whether a path is one of this key's.
    pub(super) fn matches(&self, path: &KeyPath) -> bool {
        self.beyond(path) == Some(0)
    }

    /// Whether a path leads towards this key.
    pub(super) fn is_beneath(&self, path: &KeyPath) -> bool {
        self.beyond(path).is_some_and(|segments| segments > 0)
    }

    /// How many segments the key has beyond a path that leads to it.
    fn beyond(&self, path: &KeyPath) -> Option<usize> {
        let mut own = self.path.split('.');
        path.segments()
            .iter()
            .all(|segment| own.next().is_some_and(|own| own == "*" || own == segment))
            .then(|| own.count())
    }

    /// The key's path, with the user's own names of a table in place of its stars, as far as the key leads through the table.
    pub(super) fn named_after(&self, table: &KeyPath) -> String {
        let mut names = table.segments().iter();
        let own = self.path.split('.').map(|own| match names.next() {
            Some(name) if own == "*" => segment_text(name),
            Some(_) | None => own.to_owned(),
        });
        own.collect::<Vec<_>>().join(".")
    }
}
