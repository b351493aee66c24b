//! The records of a server's sessions: the store's thread, the audit and the journals, from their settings to their end.

use crate::clock;
use crate::failure::Failure;
use crate::toolbox::ARTIFACT_FILE;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use windlass_config::Config;
use windlass_driver::Ledger;
use windlass_runtime::audit::{Audit, AuditSettings, AuditedArguments};
use windlass_runtime::call_driver::Shared;
use windlass_runtime::client_key;
use windlass_runtime::executor::HandlerThreads;
use windlass_runtime::ids;
use windlass_runtime::journal::{Journal, JournalSettings};
use windlass_runtime::metrics::Metrics;
use windlass_runtime::provider_log::ProviderLog;
use windlass_runtime::rate::MemoryRateLimiter;
use windlass_runtime::store_thread::{StoreThread, Surroundings, ThreadSettings};
use windlass_runtime::subscriber::Subscriber;
use windlass_store::{DATABASE_FILE, LOCK_FILE, ServerKey, Store, StoreLimits, StoreSettings};

/// The audit's name in the data folder.
const AUDIT_FILE: &str = "audit.jsonl";
/// The journals' folder in the data folder.
const JOURNAL_FOLDER: &str = "journal";

/// The ends at which it is written, open from here to the server's end.
pub(crate) struct Records {
    pub(crate) store_thread: StoreThread,
    audit: Option<Arc<Audit>>,
    journal: Option<Arc<Journal>>,
    threads: HandlerThreads,
}

impl Records {
    pub(crate) fn open(config: &Config, store: Arc<dyn Store>) -> Result<Self, Failure> {
        let audit = open_audit(config)?;
        let journal = open_journal(config)?;
        let surroundings = Surroundings::with_audit(audit.clone());
        let store_thread = StoreThread::start(store, ThreadSettings::default(), surroundings)
            .map_err(Failure::of)?;
        Ok(Self {
            store_thread,
            audit,
            journal,
            threads: HandlerThreads::new(config.threads.limits()),
        })
    }

    pub(crate) fn shared(&self, metrics: Arc<Metrics>, others: Vec<Arc<dyn Subscriber>>) -> Shared {
        let ledger: Arc<dyn Ledger> = Arc::new(self.store_thread.handle());
        let (audit, journal) = (self.audit.clone(), self.journal.clone());
        let threads = self.threads.clone();
        shared(ledger, audit, metrics, others, journal, threads)
    }

    pub(crate) fn audit(&self) -> Option<Arc<Audit>> {
        self.audit.clone()
    }

    /// Writes the waiting records. Joining the threads blocks, but no other work is left.
    pub(crate) fn close(self) {
        // The audit comes first: it tells the ledger which changes have lines.
        if let Some(audit) = self.audit {
            audit.close();
        }
        self.store_thread.close();
        if let Some(journal) = self.journal {
            journal.close();
        }
    }
}

pub(crate) fn open_audit(config: &Config) -> Result<Option<Arc<Audit>>, Failure> {
    let audit = audit_settings(config)?.map(Audit::open_with).transpose();
    Ok(audit.map_err(Failure::of)?.map(Arc::new))
}

/// The place and the form of the audit; `None` where there is none.
fn audit_settings(config: &Config) -> Result<Option<AuditSettings>, Failure> {
    if !config.audit.enabled {
        return Ok(None);
    }
    let path = audit_path(config);
    if is_own(&path, &config.folders.data) {
        return Err(Failure::Failed(format!(
            "the audit cannot be written to {}: the server has that file for something else; set audit.path to a file of its own",
            path.display()
        )));
    }
    let arguments = match config.audit.arguments {
        true => AuditedArguments::Visible,
        false => AuditedArguments::Hash,
    };
    Ok(Some(AuditSettings {
        path,
        arguments,
        file_bytes_max: config.audit.file_bytes_max.get(),
    }))
}

/// Whether a path leads to a file of the data folder that the server writes to itself, there or not.
fn is_own(path: &Path, data: &Path) -> bool {
    let in_folder = || {
        let (folder, name) = path.parent().zip(path.file_name())?;
        Some(folder.canonicalize().ok()?.join(name))
    };
    // A symbolic link counts as its target; a folder that does not exist yet has only its name.
    let found = path.canonicalize().ok().or_else(in_folder);
    let found = found.map_or_else(|| std::path::absolute(path), Ok);
    let data = data.canonicalize().or_else(|_| std::path::absolute(data));
    let (Ok(found), Ok(data)) = (found, data) else {
        return false;
    };
    let own = |name: &str| found == data.join(name);
    let of_store = ["", "-wal", "-shm", "-journal"].map(|end| format!("{DATABASE_FILE}{end}"));
    let lock = format!("{AUDIT_FILE}.lock");
    let others = [
        client_key::FILE_NAME,
        client_key::LEDGER_FILE_NAME,
        client_key::CONNECTIONS_FILE_NAME,
        LOCK_FILE,
        ARTIFACT_FILE,
        &lock,
    ];
    of_store.iter().any(|name| own(name)) || others.into_iter().any(own)
}

/// The file of the audit that grows.
pub(crate) fn audit_path(config: &Config) -> PathBuf {
    let usual = || config.folders.data.join(AUDIT_FILE);
    config
        .audit
        .path
        .as_deref()
        .map_or_else(usual, Path::to_path_buf)
}

pub(crate) fn open_journal(config: &Config) -> Result<Option<Arc<Journal>>, Failure> {
    let settings = &config.journal;
    if !settings.enabled {
        return Ok(None);
    }
    let usual = || config.folders.data.join(JOURNAL_FOLDER);
    let journal = Journal::start(JournalSettings {
        folder: settings
            .folder
            .as_deref()
            .map_or_else(usual, Path::to_path_buf),
        file_bytes_max: settings.file_bytes_max.get(),
        files_max: settings.files_max.count(),
    })
    .map_err(Failure::of)?;
    Ok(Some(Arc::new(journal)))
}

/// The settings of this process's store.
pub(crate) fn store_settings(
    key: ServerKey,
    limits: StoreLimits,
) -> Result<StoreSettings, Failure> {
    Ok(StoreSettings {
        key,
        owner: ids::owner_id().map_err(Failure::of)?,
        clock: clock::steady(),
        limits,
    })
}

/// The parts that all sessions share, with their subscribers.
pub(crate) fn shared(
    ledger: Arc<dyn Ledger>,
    audit: Option<Arc<Audit>>,
    metrics: Arc<Metrics>,
    others: Vec<Arc<dyn Subscriber>>,
    journal: Option<Arc<Journal>>,
    threads: HandlerThreads,
) -> Shared {
    if let Some(audit) = &audit {
        audit.tells(&ledger);
    }
    let audit = audit.map(|audit| audit as Arc<dyn Subscriber>);
    Shared {
        ledger,
        rate_limiter: Arc::new(MemoryRateLimiter::default()),
        threads,
        subscribers: audit
            .into_iter()
            .chain([metrics as Arc<dyn Subscriber>])
            .chain([Arc::new(ProviderLog::default()) as Arc<dyn Subscriber>])
            .chain(others)
            .collect(),
        journal,
    }
}
