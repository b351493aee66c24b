//! Reads an artifact back, and refuses any text that the compiler did not write.

use super::{
    Artifact, ArtifactVersion, DeclaredKind, Entry, FileForm, HandlerCode, HandlerForm,
    SCHEMA_VERSION, ScriptFile,
};
use crate::guide::{self, Guide};
use crate::manifest::Manifest;
use crate::program::changed_file;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::fmt;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use windlass_contract::id::ToolId;

/// The most bytes of an artifact: enough for 512 tools at the limit of their schemas and guides.
const BYTES_MAX: u64 = 256 * 1024 * 1024;
const HANDLER_BYTES_MAX: u64 = 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// There is no artifact yet.
    #[error("there is no artifact at {path}; run `windlass build`")]
    Missing { path: String },
    #[error("the artifact {path} cannot be read: {cause}")]
    Unreadable { path: String, cause: std::io::Error },
    #[error("the artifact {path} is not one of ours: {cause}; run `windlass build`")]
    Malformed { path: String, cause: String },
    #[error(
        "the artifact {path} has the form {found}, and this program reads {SCHEMA_VERSION}; run `windlass build`"
    )]
    OtherForm { path: String, found: String },
    #[error(
        "the artifact {path} says version {said}, but what it holds is version {found}: it was changed after it was built; run `windlass build`"
    )]
    Tampered {
        path: String,
        said: String,
        found: String,
    },
    #[error(
        "the handler {path} of the tool {tool} was changed after the artifact was built; run `windlass build`"
    )]
    HandlerChanged { tool: ToolId, path: String },
    #[error("the handler {path} of the tool {tool} cannot be read: {cause}")]
    HandlerUnreadable {
        tool: ToolId,
        path: String,
        cause: std::io::Error,
    },
}

impl LoadError {
    /// Whether the cause is ordinary: the author has gone on writing, or another version of the program reads the artifact.
    pub fn is_usual(&self) -> bool {
        match self {
            Self::Missing { .. }
            | Self::OtherForm { .. }
            | Self::HandlerChanged { .. }
            | Self::HandlerUnreadable { .. } => true,
            Self::Unreadable { .. } | Self::Malformed { .. } | Self::Tampered { .. } => false,
        }
    }

    /// Whether building the tools again is the cure.
    pub fn is_cured_by_building(&self) -> bool {
        match self {
            Self::Missing { .. }
            | Self::Malformed { .. }
            | Self::OtherForm { .. }
            | Self::Tampered { .. }
            | Self::HandlerChanged { .. }
            | Self::HandlerUnreadable { .. } => true,
            Self::Unreadable { .. } => false,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File<'t> {
    schema_version: String,
    version: String,
    git_commit: Option<String>,
    build_timestamp: String,
    source_hash: String,
    #[serde(borrow)]
    tools: Vec<Line<'t>>,
}

/// The members of a tool's line besides the manifest, and their places in the file.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line<'t> {
    #[serde(borrow)]
    provider_schemas: &'t RawValue,
    summary: String,
    documentation: String,
    #[serde(borrow)]
    handler: &'t RawValue,
    #[serde(default)]
    beside: bool,
}

impl Line<'_> {
    /// Reads the line's tool and adds it to the version. `text` and `path` are those of the artifact's file.
    fn read(
        self,
        text: &str,
        version: &mut ArtifactVersion,
        folder: &Path,
        path: &str,
    ) -> Result<Entry, LoadError> {
        let pieces = Pieces::of(&self, text).ok_or_else(|| {
            malformed(
                path,
                "a tool's line is not in the form that it is written in",
            )
        })?;
        let facts = pieces.facts(self.handler.get());
        let manifest: Manifest =
            serde_json::from_str(&facts).map_err(|error| malformed(path, error))?;
        let form =
            serde_json::from_str(self.handler.get()).map_err(|error| malformed(path, error))?;
        let handler = load_handler(form, &manifest.tool_id, folder)?;
        let declarations = self.provider_schemas.get();
        match &handler {
            HandlerCode::Builtin => version.add(&facts, declarations),
            HandlerCode::Script { .. } | HandlerCode::Declared { .. } => {
                let hashed = pieces.facts(&handler.hashed_form().to_string());
                version.add(hashed, declarations);
            }
        }
        Ok(Entry {
            manifest,
            declarations: serde_json::from_str(declarations)
                .map_err(|error| malformed(path, error))?,
            guide: Guide {
                summary: self.summary,
                documentation: self.documentation,
            },
            handler,
            is_beside: self.beside,
        })
    }
}

fn malformed(path: &str, cause: impl fmt::Display) -> LoadError {
    LoadError::Malformed {
        path: path.to_owned(),
        cause: cause.to_string(),
    }
}

/// A tool's line, cut into the pieces in which it was written, so that the longest piece, the declarations, is read once.
struct Pieces<'t> {
    /// From the line's first byte to the handler.
    before_handler: &'t str,
    /// From the handler to the declarations, without the bracket that closes the line.
    behind_handler: &'t str,
}

impl<'t> Pieces<'t> {
    /// `None` where the line was not written by the compiler.
    fn of(line: &Line<'_>, file: &'t str) -> Option<Self> {
        let handler = place(line.handler, file)?;
        let declarations = place(line.provider_schemas, file)?;
        let before_handler = file.get(..handler.start)?;
        // A line holds no raw line break: line breaks in its texts are escaped.
        let start = before_handler.rfind('\n')? + 1;
        let behind_handler = file.get(handler.end..declarations.start)?;
        Some(Self {
            before_handler: before_handler[start..].trim_start_matches(' '),
            behind_handler: behind_handler.strip_suffix(",\"providerSchemas\":")?,
        })
    }

    /// The line's text without the declarations.
    fn facts(&self, handler: &str) -> String {
        [self.before_handler, handler, self.behind_handler, "}"].concat()
    }
}

/// The range of a piece within the text that it was cut from.
fn place(piece: &RawValue, text: &str) -> Option<Range<usize>> {
    let piece = piece.get();
    let start = piece.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    let range = start..start.checked_add(piece.len())?;
    (range.end <= text.len()).then_some(range)
}

impl Artifact {
    /// Reads an artifact, recomputes its version, and checks the hashes of the handler files.
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        let shown = path.display().to_string();
        let bytes = read(path, BYTES_MAX).map_err(|cause| match cause.kind() {
            std::io::ErrorKind::NotFound => LoadError::Missing {
                path: shown.clone(),
            },
            _ => LoadError::Unreadable {
                path: shown.clone(),
                cause,
            },
        })?;
        let text = str::from_utf8(&bytes).map_err(|error| malformed(&shown, error))?;
        let file: File<'_> =
            serde_json::from_str(text).map_err(|error| malformed(&shown, error))?;
        if file.schema_version != SCHEMA_VERSION {
            return Err(LoadError::OtherForm {
                path: shown,
                found: file.schema_version,
            });
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut entries = Vec::with_capacity(file.tools.len());
        let mut version = ArtifactVersion::default();
        for line in file.tools {
            entries.push(line.read(text, &mut version, folder, &shown)?);
        }
        let found = version.finish();
        if found != file.version {
            return Err(LoadError::Tampered {
                path: shown,
                said: file.version,
                found,
            });
        }
        Ok(Self {
            version: found.into(),
            git_commit: file.git_commit,
            build_timestamp: file.build_timestamp,
            source_hash: file.source_hash,
            entries,
        })
    }
}

fn load_handler(form: HandlerForm, tool: &ToolId, folder: &Path) -> Result<HandlerCode, LoadError> {
    let load = |path, sha256| load_file(FileForm { path, sha256 }, tool, folder);
    let mut of_program = Vec::new();
    let (kind, path, sha256) = match form {
        HandlerForm::Builtin => return Ok(HandlerCode::Builtin),
        HandlerForm::Script {
            path,
            sha256,
            modules,
        } => {
            let modules = modules.into_iter().map(|file| load(file.path, file.sha256));
            return Ok(HandlerCode::Script {
                entry: load(path, sha256)?,
                modules: modules.collect::<Result<_, _>>()?,
            });
        }
        HandlerForm::Http { path, sha256 } => (DeclaredKind::Http, path, sha256),
        HandlerForm::Webhook { path, sha256 } => (DeclaredKind::Webhook, path, sha256),
        HandlerForm::Mcp { path, sha256 } => (DeclaredKind::Mcp, path, sha256),
        HandlerForm::McpResource { path, sha256 } => (DeclaredKind::McpResource, path, sha256),
        HandlerForm::Process {
            path,
            sha256,
            program,
        } => {
            of_program = program;
            (DeclaredKind::Process, path, sha256)
        }
    };
    let file = load(path, sha256)?;
    let of_tool = folder.join(&file.path);
    let of_tool = of_tool.parent().unwrap_or(folder);
    if let Some(changed) = changed_file(of_tool, &of_program) {
        return Err(LoadError::HandlerChanged {
            tool: tool.clone(),
            path: of_tool.join(changed).display().to_string(),
        });
    }
    Ok(HandlerCode::Declared {
        kind,
        path: file.path,
        sha256: file.sha256,
        source: file.source,
        program: of_program,
    })
}

fn load_file(form: FileForm, tool: &ToolId, folder: &Path) -> Result<ScriptFile, LoadError> {
    let FileForm { path, sha256 } = form;
    let bytes = read(&folder.join(&path), HANDLER_BYTES_MAX).map_err(|cause| {
        LoadError::HandlerUnreadable {
            tool: tool.clone(),
            path: path.clone(),
            cause,
        }
    })?;
    let text = String::from_utf8(bytes).ok();
    let file = text.map(|text| ScriptFile::new(path.clone(), guide::normalise(&text).into()));
    let file = file.filter(|file| file.sha256 == sha256);
    file.ok_or_else(|| LoadError::HandlerChanged {
        tool: tool.clone(),
        path,
    })
}

fn read(path: &Path, bytes_max: u64) -> std::io::Result<Vec<u8>> {
    let file = std::fs::File::open(path)?;
    let length = file.metadata()?.len();
    let mut bytes = Vec::with_capacity(usize::try_from(length.min(bytes_max)).unwrap_or(0));
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(std::io::Error::other(format!(
            "it is over {bytes_max} bytes long"
        )));
    }
    Ok(bytes)
}
