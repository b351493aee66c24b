//! A note of the audit's position, signed by the server and kept elsewhere. A writer of the audit's files could write them anew
//! as a whole, with an intact chain. Knows no file.

use super::chain::Link;
use crate::client_key::CheckpointKey;
use serde::{Deserialize, Serialize};
use windlass_contract::envelope::rfc3339;
use windlass_contract::json::hex;

/// The number of this form of a note. Later forms have other numbers.
const FORM: u32 = 1;

/// The audit's position at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub records: u64,
    pub last: Link,
    /// RFC 3339.
    pub made: String,
}

/// The note in its written form.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    windlass_audit_checkpoint: u32,
    made: String,
    records: u64,
    hash: String,
    signature: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Form {
    windlass_audit_checkpoint: u32,
}

/// The reason why a text is no checkpoint of this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoCheckpoint {
    #[error(
        "it is no checkpoint of an audit; name a file that `windlass audit checkpoint` has written"
    )]
    Unreadable,
    #[error(
        "it was written by a newer windlass: it has version {found}, and this one knows version {FORM}; run the newer one"
    )]
    Newer { found: u32 },
    #[error(
        "its signature is not that of this server's key: it was changed, or it is of another data folder; name that with --data"
    )]
    Forged,
}

impl Checkpoint {
    pub fn new(records: u64, last: Link, now_unix_ms: u64) -> Self {
        Self {
            records,
            last,
            made: rfc3339(now_unix_ms),
        }
    }

    /// The note as one line.
    pub fn sign(&self, key: &CheckpointKey) -> String {
        let written = Written {
            windlass_audit_checkpoint: FORM,
            made: self.made.clone(),
            records: self.records,
            hash: self.last.as_str().to_owned(),
            signature: hex(&key.sign(&self.signed())),
        };
        serde_json::to_string(&written).expect("texts and numbers are plain JSON")
    }

    /// Reads a note that this server has signed.
    pub fn read(text: &str, key: &CheckpointKey) -> Result<Self, NoCheckpoint> {
        let unreadable = |_| NoCheckpoint::Unreadable;
        // The form is read before the rest, which another version may write otherwise.
        let form: Form = serde_json::from_str(text.trim()).map_err(unreadable)?;
        match form.windlass_audit_checkpoint {
            FORM => {}
            found if found > FORM => return Err(NoCheckpoint::Newer { found }),
            _ => return Err(NoCheckpoint::Unreadable),
        }
        let written: Written = serde_json::from_str(text.trim()).map_err(unreadable)?;
        let checkpoint = Self {
            records: written.records,
            last: Link::parse(&written.hash).ok_or(NoCheckpoint::Unreadable)?,
            made: written.made,
        };
        match key.has_signed(&checkpoint.signed(), &written.signature) {
            true => Ok(checkpoint),
            false => Err(NoCheckpoint::Forged),
        }
    }

    fn signed(&self) -> String {
        format!(
            "{FORM}\n{}\n{}\n{}",
            self.made,
            self.records,
            self.last.as_str()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_this_servers_key_has_signed_is_a_checkpoint() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [own, other] = folders
            .each_ref()
            .map(|folder| CheckpointKey::open(folder.path()).unwrap());
        let checkpoint = Checkpoint::new(12, Link::genesis(), 1_700_000_000_000);
        let text = checkpoint.sign(&own);
        assert_eq!(Checkpoint::read(&format!("{text}\n"), &own), Ok(checkpoint));
        let fewer = text.replace("\"records\":12", "\"records\":11");
        for (text, key, problem) in [
            (text.as_str(), &other, NoCheckpoint::Forged),
            (fewer.as_str(), &own, NoCheckpoint::Forged),
            (
                "{\"windlassAuditCheckpoint\":2,\"more\":[]}",
                &own,
                NoCheckpoint::Newer { found: 2 },
            ),
            ("{}", &own, NoCheckpoint::Unreadable),
            ("", &own, NoCheckpoint::Unreadable),
        ] {
            assert_eq!(Checkpoint::read(text, key), Err(problem), "{text}");
        }
    }
}
