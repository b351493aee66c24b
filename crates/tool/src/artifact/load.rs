//! Reads an artifact back, and refuses one that is not what the compiler wrote.

use super::{Artifact, Entry, HandlerCode, HandlerForm, SCHEMA_VERSION, version};
use crate::guide::{self, Guide};
use crate::id::ToolId;
use crate::json;
use crate::manifest::Manifest;
use crate::registry::Declarations;
use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use std::io::Read;
use std::path::Path;

/// No artifact is longer: 512 tools at the limit of their schemas and guides would be, and nobody has them.
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
    tools: Vec<&'t RawValue>,
}

/// What a tool's line has besides the manifest. Read apart from it, because declarations stay text.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rest {
    provider_schemas: Declarations,
    summary: String,
    documentation: String,
    handler: HandlerForm,
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
        let malformed = |error: serde_json::Error| LoadError::Malformed {
            path: shown.clone(),
            cause: error.to_string(),
        };
        let file: File<'_> = serde_json::from_slice(&bytes).map_err(malformed)?;
        if file.schema_version != SCHEMA_VERSION {
            return Err(LoadError::OtherForm {
                path: shown,
                found: file.schema_version,
            });
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut entries = Vec::with_capacity(file.tools.len());
        for line in file.tools {
            let manifest: Manifest = serde_json::from_str(line.get()).map_err(malformed)?;
            let rest: Rest = serde_json::from_str(line.get()).map_err(malformed)?;
            let handler = load_handler(rest.handler, &manifest.tool_id, folder)?;
            entries.push(Entry {
                manifest,
                declarations: rest.provider_schemas,
                guide: Guide {
                    summary: rest.summary,
                    documentation: rest.documentation,
                },
                handler,
            });
        }
        let found = version(&entries);
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
    let HandlerForm::Script { path, sha256 } = form else {
        return Ok(HandlerCode::Builtin);
    };
    let bytes = read(&folder.join(&path), HANDLER_BYTES_MAX).map_err(|cause| {
        LoadError::HandlerUnreadable {
            tool: tool.clone(),
            path: path.clone(),
            cause,
        }
    })?;
    let source = String::from_utf8(bytes)
        .ok()
        .map(|text| guide::normalise(&text))
        .filter(|source| json::hex(&Sha256::digest(source)) == sha256);
    match source {
        Some(source) => Ok(HandlerCode::Script {
            path,
            sha256,
            source: source.into(),
        }),
        None => Err(LoadError::HandlerChanged {
            tool: tool.clone(),
            path,
        }),
    }
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
