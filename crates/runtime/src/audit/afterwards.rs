//! Changes that are in the ledger and whose end no line of the audit tells, because the process that made them was killed, or the
//! disk took no more lines: which ones these are. Reads the audit and the ledger; writes neither.

use super::chain::Link;
use super::file::files_of;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;
use windlass_store::{Effect, EffectState, Store, StoreUnavailable};
use windlass_tool::envelope::rfc3339;
use windlass_tool::json;

/// Bytes of the audit that are read, the newest. What is older than the oldest line in them is not asked for.
const READ_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Lines of several sessions stand in the order in which they were handed over, which is not quite that of their times.
const DISORDER: Duration = Duration::from_secs(60);
/// No attempt at an effect takes longer than this, so that nothing that was reserved earlier ended later than a line.
const LASTS: Duration = Duration::from_secs(60 * 60);

/// Why it is not known what the audit lacks.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unknown {
    #[error("the audit cannot be read back: {0}")]
    Audit(#[from] io::Error),
    #[error(transparent)]
    Ledger(#[from] StoreUnavailable),
}

/// What the newest lines of an audit say about effects.
#[derive(Default)]
struct Told {
    /// Of each effect, what its lines say, each with its time.
    ends: HashMap<String, Vec<(String, EffectState)>>,
    /// The time of the oldest line that was read; `None` where there is nothing older than what was read.
    since: Option<String>,
}

/// The effects whose end no line tells, oldest first; no more than a number.
pub(super) fn untold(
    path: &Path,
    store: &dyn Store,
    effects_max: usize,
) -> Result<Vec<Effect>, Unknown> {
    let told = Told::read(path, READ_BYTES_MAX)?;
    let mut untold = Vec::new();
    let mut last: Option<Effect> = None;
    loop {
        let page = store.ask(|tables| tables.settled(last.as_ref()))?;
        let is_over = page.last().is_none_or(|effect| told.is_past(effect));
        last = page.last().cloned();
        untold.extend(page.into_iter().filter(|effect| told.lacks(effect)));
        if is_over || untold.len() >= effects_max {
            // What is left out now is found when the next process looks.
            untold.truncate(effects_max);
            untold.reverse();
            return Ok(untold);
        }
    }
}

impl Told {
    fn read(path: &Path, bytes_max: u64) -> io::Result<Self> {
        let mut told = Self::default();
        let mut left = bytes_max;
        for path in files_of(path)?.iter().rev() {
            let mut file = File::open(path)?;
            let length = file.metadata()?.len();
            let skipped = length.saturating_sub(left);
            file.seek(SeekFrom::Start(skipped))?;
            told.file(BufReader::new(file), skipped > 0)?;
            left -= length - skipped;
            if skipped > 0 {
                break;
            }
        }
        Ok(told)
    }

    /// Reads a file that is older than those before. Where its beginning was skipped, the first line is no whole one.
    fn file(&mut self, mut file: impl BufRead, is_cut: bool) -> io::Result<()> {
        let mut line = Vec::new();
        if is_cut {
            file.read_until(b'\n', &mut line)?;
        }
        let (mut is_first, mut oldest) = (true, None);
        loop {
            line.clear();
            if file.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            let Ok(text) = std::str::from_utf8(&line) else {
                continue;
            };
            if is_first && !is_cut && text.contains(Link::genesis().as_str()) {
                // Nothing came before this line, so that whatever no line tells is lacking.
                oldest = Some(None);
            }
            is_first = false;
            // Of most lines nothing is needed.
            if oldest.is_none() || text.contains("\"effectId\":") {
                let time = self.line(text);
                oldest = oldest.or(time.map(Some));
            }
        }
        if let Some(oldest) = oldest {
            self.since = oldest;
        }
        Ok(())
    }

    /// Notes what a line says of an effect, and returns its time.
    fn line(&mut self, text: &str) -> Option<String> {
        let fields = json::parse(text.as_bytes()).ok()?;
        let field = |name: &str| fields.get(name).and_then(|value| value.as_str());
        let time = field("timestamp")?.to_owned();
        if let Some(effect) = field("effectId") {
            let ok = fields.get("ok").and_then(|ok| ok.as_bool());
            let said = match (field("event")?, ok, field("errorType")) {
                ("tool_outcome_settled", ..) => EffectState::parse(field("state")?),
                ("tool_outcome_unknown", ..) | (_, _, Some("OUTCOME_UNKNOWN")) => {
                    Some(EffectState::Unknown)
                }
                // A refusal says nothing of how an effect ended.
                ("tool_execution", Some(true), _) => Some(EffectState::Succeeded),
                ("tool_execution" | "tool_cancellation", ..) => Some(EffectState::Failed),
                _ => None,
            };
            let ends = self.ends.entry(effect.to_owned()).or_default();
            ends.extend(said.map(|said| (time.clone(), said)));
        }
        Some(time)
    }

    /// Whether an effect and all that were reserved before it are older than what was read.
    fn is_past(&self, effect: &Effect) -> bool {
        self.is_before(effect.reserved_at_unix_ms, LASTS)
    }

    fn is_before(&self, unix_ms: u64, by: Duration) -> bool {
        let by_ms = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        // Times that are written alike are ordered as their texts are.
        self.since
            .as_ref()
            .is_some_and(|since| rfc3339(unix_ms.saturating_add(by_ms)) < *since)
    }

    fn lacks(&self, effect: &Effect) -> bool {
        let disorder_ms = u64::try_from(DISORDER.as_millis()).unwrap_or(u64::MAX);
        let changed_at = effect.changed_at_unix_ms.saturating_sub(disorder_ms);
        if self.is_before(changed_at, Duration::ZERO) {
            return false;
        }
        // An earlier attempt's end says nothing of this one's.
        let begun = rfc3339(effect.reserved_at_unix_ms);
        let ends = self.ends.get(effect.effect_id.as_str());
        let mut ends = ends.into_iter().flatten();
        !ends.any(|(time, said)| *time >= begun && says(*said, effect.state))
    }
}

/// Whether a line that says one state tells of an effect that is in another.
fn says(said: EffectState, state: EffectState) -> bool {
    said == state || !matches!(state, EffectState::Succeeded | EffectState::Failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_tool::id::{ConversationId, EffectId, ToolId, UserId};
    use windlass_tool::sensitive::Sensitive;

    const NOW: u64 = 1_700_000_000_000;
    const HOUR: u64 = 60 * 60 * 1000;

    fn line(effect: &str, unix_ms: u64) -> String {
        let time = rfc3339(unix_ms);
        format!(
            "{{\"event\":\"tool_execution\",\"timestamp\":\"{time}\",\"effectId\":\"{effect}\",\"ok\":true}}\n"
        )
    }

    fn effect(id: &str, unix_ms: u64) -> Effect {
        Effect {
            effect_id: EffectId::new(id),
            conversation_id: ConversationId::new("c"),
            user_id: UserId::new("u"),
            tool: ToolId::parse("pay").unwrap(),
            tool_version: "1.0.0".to_owned(),
            fingerprint: [0; 32],
            state: EffectState::Succeeded,
            response: None,
            is_answered: false,
            intent: Sensitive("{}".to_owned()),
            reserved_at_unix_ms: unix_ms,
            changed_at_unix_ms: unix_ms,
        }
    }

    #[test]
    fn what_is_older_than_the_lines_that_were_read_is_not_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let lines = [
            line("a", NOW),
            line("b", NOW + 2 * HOUR),
            line("c", NOW + 3 * HOUR),
        ];
        std::fs::write(&path, lines.concat()).unwrap();
        // Half of the second line and the whole of the third.
        let bytes_max = lines[2].len() + lines[1].len() / 2;
        let told = Told::read(&path, bytes_max as u64).unwrap();
        assert_eq!(told.since, Some(rfc3339(NOW + 3 * HOUR)));
        assert_eq!(told.ends.keys().collect::<Vec<_>>(), ["c"]);
        // Its line may be in what was not read.
        assert!(!told.lacks(&effect("a", NOW)));
        assert!(told.is_past(&effect("a", NOW)));
        // Its line would have been read, and it may not be the oldest of those.
        assert!(told.lacks(&effect("d", NOW + 4 * HOUR)));
        assert!(!told.is_past(&effect("d", NOW + 4 * HOUR)));
        assert!(!told.lacks(&effect("c", NOW + 3 * HOUR - 1)));
        let whole = Told::read(&path, lines.concat().len() as u64).unwrap();
        assert_eq!(whole.since, Some(rfc3339(NOW)));
    }
}
