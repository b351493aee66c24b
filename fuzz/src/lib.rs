//! Every parser that strangers reach, each as one function from bytes. None may panic, hang or take memory without end, whatever
//! the bytes are. Knows no fuzzer.

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use windlass_app::bodies::{self, BodyKind};
use windlass_compile::handler_file::Permissions;
use windlass_compile::{Builtin, Vocabularies};
use windlass_config as config;
use windlass_contract::{arguments, json, validate};
use windlass_provider::answer::AnswerLimits;
use windlass_provider::{
    gemini_interactions, gemini_live, gemini_text, openai_chat, openai_realtime, openai_responses,
};
use windlass_provider::{profile, sse};
use windlass_runtime::{audit, client_protocol};
use windlass_session::model::ModelEvent;

/// One parser.
#[derive(Clone, Copy)]
pub struct Target {
    pub name: &'static str,
    read: fn(&[u8]),
}

impl Target {
    const ALL: &[Self] = &[
        Self::new("arguments", arguments),
        Self::new("audit", audit_file),
        Self::new("client_frame", client_frame),
        Self::new("configuration", configuration),
        Self::new("event_stream", event_stream),
        Self::new("gemini_live", gemini_live_frames),
        Self::new("http_body", http_body),
        Self::new("knowledge_file", knowledge_file),
        Self::new("mcp_message", mcp_message),
        Self::new("openai_realtime", openai_realtime_frames),
        Self::new("text_answer", text_answer),
        Self::new("tool_directory", tool_directory),
    ];

    const fn new(name: &'static str, read: fn(&[u8])) -> Self {
        Self { name, read }
    }

    pub fn all() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied()
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|target| target.name == name)
    }

    /// All names, for a message.
    pub fn names() -> String {
        let names: Vec<&str> = Self::all().map(|target| target.name).collect();
        names.join(", ")
    }

    /// Lets the parser read.
    pub fn read(self, bytes: &[u8]) {
        (self.read)(bytes);
    }
}

/// A schema and arguments for it, with a zero between them: the arguments as a model sends them.
fn arguments(bytes: &[u8]) {
    let (schema, given) = halves(bytes);
    let Ok(given) = json::parse(given) else {
        return;
    };
    let Ok(schema) = json::parse(schema) else {
        return;
    };
    let Ok(validator) = validate::Validator::compile(&schema) else {
        return;
    };
    let is_valid = validator.is_valid(&given);
    assert_eq!(is_valid, validator.violations(&given).is_empty());
    if let Ok(mut given) = serde_json::from_value::<arguments::Arguments>(given) {
        validator.apply_defaults(&mut given);
    }
}

/// A file of the audit, which an intruder may have written.
fn audit_file(bytes: &[u8]) {
    in_folder(|folder| {
        let file = folder.join("audit.jsonl");
        write(&file, bytes);
        drop(audit::verify(&[file]));
    });
}

fn client_frame(bytes: &[u8]) {
    drop(client_protocol::parse(bytes));
}

fn configuration(bytes: &[u8]) {
    in_folder(|folder| {
        let file = folder.join("windlass.toml");
        write(&file, bytes);
        let loaded = config::Loaded::load(&config::Sources {
            file: Some(file),
            working_directory: folder.to_owned(),
            ..config::Sources::default()
        });
        drop(loaded.map(|loaded| loaded.to_toml()));
    });
}

/// The bytes at once, and cut in two: the events have to be the same.
fn event_stream(bytes: &[u8]) {
    let Some((at, bytes)) = bytes.split_first() else {
        return;
    };
    let limits = sse::Limits {
        line_bytes_max: 4_096,
        event_bytes_max: 8_192,
    };
    let items = |pieces: [&[u8]; 2]| {
        let mut items = Vec::new();
        let mut splitter = sse::Splitter::new(limits);
        let mut on_item = |item: sse::Item<'_>| items.push(format!("{item:?}"));
        for piece in pieces {
            if splitter.push(piece, &mut on_item).is_err() {
                return None;
            }
        }
        splitter.finish(&mut on_item).is_ok().then_some(items)
    };
    let at = usize::from(*at).min(bytes.len());
    assert_eq!(items([bytes, b""]), items([&bytes[..at], &bytes[at..]]));
}

/// What a provider's codec hears is of no matter here.
struct Nobody;

impl gemini_live::Sink for Nobody {
    fn event(&mut self, _: ModelEvent) {}

    fn audio(&mut self, _: &[u8]) {}
}

impl openai_realtime::Sink for Nobody {
    fn event(&mut self, _: ModelEvent) {}

    fn audio(&mut self, _: &[u8]) {}

    fn unplayed(&self) -> Duration {
        Duration::ZERO
    }
}

/// A frame a line, all on one connection.
fn gemini_live_frames(bytes: &[u8]) {
    let profile = profile::gemini_live("gemini-2.5-flash-native-audio").profile;
    let mut codec = gemini_live::Codec::new(profile.model);
    for frame in bytes.split(|byte| *byte == b'\n') {
        codec.decode(frame, &mut Nobody);
    }
}

/// A frame a line, all on one connection.
fn openai_realtime_frames(bytes: &[u8]) {
    let mut codec = openai_realtime::Codec::new(openai_realtime::Options::default());
    let mut frames = Vec::new();
    for frame in bytes.split(|byte| *byte == b'\n') {
        codec.decode(frame, &mut Nobody);
        if codec.react(&mut frames).is_err() {
            return;
        }
    }
}

/// The first byte says which codec reads; the rest is the body of its answer, streamed in pieces and whole.
fn text_answer(bytes: &[u8]) {
    let Some((kind, body)) = bytes.split_first() else {
        return;
    };
    let limits = AnswerLimits {
        stream_bytes_max: 1 << 16,
        line_bytes_max: 1 << 14,
        ..AnswerLimits::default()
    };
    let mut events = Vec::new();
    let pieces = body.chunks(61);
    match kind % 4 {
        3 => {
            let mut decoder = gemini_interactions::Decoder::new(1, limits);
            pieces.for_each(|piece| decoder.push(piece, &mut events));
            drop(decoder.finish(&mut events));
            drop(gemini_interactions::decode_whole(
                body,
                1,
                limits,
                &mut events,
            ));
        }
        0 => {
            let mut decoder = gemini_text::Decoder::new(limits);
            pieces.for_each(|piece| decoder.push(piece, &mut events));
            drop(decoder.finish(&mut events));
            drop(gemini_text::decode_whole(body, limits, &mut events));
        }
        1 => {
            let mut decoder = openai_responses::Decoder::new(1, limits);
            pieces.for_each(|piece| decoder.push(piece, &mut events));
            drop(decoder.finish(&mut events));
            drop(openai_responses::decode_whole(body, 1, limits, &mut events));
        }
        _ => {
            let profile = profile::openai_chat("http://127.0.0.1/v1", "gpt-4.1").profile;
            let mut decoder = openai_chat::Decoder::new(&profile, 1, limits);
            pieces.for_each(|piece| decoder.push(piece, &mut events));
            drop(decoder.finish(&mut events));
            drop(openai_chat::decode_whole(
                body,
                &profile,
                1,
                limits,
                &mut events,
            ));
        }
    }
}

/// The first byte says which request.
fn http_body(bytes: &[u8]) {
    let Some((kind, body)) = bytes.split_first() else {
        return;
    };
    let kinds = BodyKind::ALL;
    bodies::is_understood(kinds[usize::from(*kind) % kinds.len()], body);
}

/// What a client of MCP sends: a body over HTTP, a line over standard input.
fn mcp_message(bytes: &[u8]) {
    bodies::is_understood(BodyKind::McpMessage, bytes);
}

/// The first byte says which kind of file.
fn knowledge_file(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else {
        return;
    };
    let names = [
        "person/a.md",
        "a.json",
        "lab/a.jsonl",
        "a.yaml",
        "project/a.csv",
    ];
    windlass_knowledge::records_in(names[usize::from(*kind) % names.len()], bytes);
}

/// `schema.json`, `guide.md` and `handler.json` of a tool, with a zero between them.
fn tool_directory(bytes: &[u8]) {
    in_folder(|folder| {
        let tool = folder.join("tools").join("a_tool");
        if let Err(error) = fs::create_dir_all(&tool) {
            panic!("{}: {error}", tool.display());
        }
        let (schema, rest) = halves(bytes);
        let (guide, handler) = halves(rest);
        write(&tool.join("schema.json"), schema);
        write(&tool.join("guide.md"), guide);
        write(&tool.join("handler.json"), handler);
        let compilation = windlass_compile::compile(&windlass_compile::Source {
            tools: &folder.join("tools"),
            artifact: &folder.join("registry.json"),
            builtin: &Builtin::new(),
            build_timestamp: "2026-01-01T00:00:00Z",
            vocabularies: &Vocabularies::default(),
            values: windlass_contract::condition::Values::none(),
            permissions: &Permissions::default(),
            judge: None,
        });
        let failed = compilation.count(windlass_compile::problem::Severity::Error) > 0;
        assert_eq!(failed, compilation.artifact.is_none());
    });
}

fn halves(bytes: &[u8]) -> (&[u8], &[u8]) {
    let at = bytes.iter().position(|byte| *byte == 0);
    let at = at.unwrap_or(bytes.len());
    (&bytes[..at], bytes.get(at + 1..).unwrap_or_default())
}

thread_local! {
    /// One folder for all that a thread reads, since making one takes longer than reading.
    static FOLDER: RefCell<Option<TempDir>> = const { RefCell::new(None) };
}

fn in_folder(read: impl FnOnce(&Path)) {
    FOLDER.with_borrow_mut(|folder| {
        let made = match folder.take() {
            Some(made) => Ok(made),
            None => TempDir::new(),
        };
        match made {
            Ok(made) => read(folder.insert(made).path()),
            Err(error) => panic!("no temporary folder can be made: {error}"),
        }
    });
}

fn write(file: &Path, bytes: &[u8]) {
    if let Err(error) = fs::write(file, bytes) {
        panic!("{}: {error}", file.display());
    }
}
