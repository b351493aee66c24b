//! Measures the costs of a request and its commit at a steady rate of calls, and of a resume of a long conversation, beside one flush
//! of the same disk.

use crate::measure::{print, rounded};
use serde_json::json;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use windlass_contract::id::{
    ClientId, ConversationId, EffectId, SessionId, TenantId, ToolId, UserId,
};
use windlass_contract::kind::Mode;
use windlass_contract::sensitive::Sensitive;
use windlass_driver::{Ledger, PendingReplies};
use windlass_runtime::store_thread::{StoreThread, Surroundings, ThreadSettings};
use windlass_store::command::{Command, NewLeg, Record, Reply, Request, RequestOrigin, ToolFacts};
use windlass_store::{
    AttemptNumber, AttemptOutcome, Batch, Beginner, ConversationRef, EntryEvent, Epoch, LegNumber,
    LegRef, NewEntry, Nonce, OwnerId, Presented, ServerKey, SqliteStore, Store,
};

/// Conversations among which the calls are spread.
const CONVERSATIONS: u32 = 500;
/// Entries of the conversation that is resumed, and how often it is.
const RESUMED_ENTRIES: u64 = 1_000;
const RESUMES: u32 = 200;
const CALLS_PER_SECOND: u32 = 1_000;
const SECONDS: u32 = 20;
const FLUSHES: u32 = 1_000;
const STEADY_SECONDS: u32 = 10;
const NOW_UNIX_MS: u64 = 1_700_000_000_000;

/// Calls that are asked and answered before the measured ones, so that files and caches have their size.
const WARM_UP: u32 = 2 * CALLS_PER_SECOND;

/// `folder` has to be on the disk that is to be measured.
pub(crate) fn run(folder: Option<&str>) -> Result<(), String> {
    let folder = match folder {
        Some(folder) => tempfile::tempdir_in(folder),
        None => tempfile::tempdir(),
    }
    .map_err(|error| error.to_string())?;
    let mut flushes = flush(folder.path(), None)?;
    let mut steady = flush(folder.path(), Some(CALLS_PER_SECOND))?;
    let requests = request_all(folder.path())?;
    let resumes = resume_all(folder.path())?;
    flushes.extend(flush(folder.path(), None)?);
    steady.extend(flush(folder.path(), Some(CALLS_PER_SECOND))?);
    let request_p99 = at(&mut requests.clone(), 0.99);
    print(&json!({
        "bench": "store", "calls_per_s": CALLS_PER_SECOND, "calls": requests.len(),
        "p99_in_fsync_p99": rounded(request_p99 / at(&mut flushes, 0.99)),
        "p99_in_steady_fsync_p99": rounded(request_p99 / at(&mut steady, 0.99)),
        "request_ms": spread(requests), "resume_ms": spread(resumes), "fsync_ms": spread(flushes),
        "steady_fsync_ms": spread(steady),
    }));
    Ok(())
}

fn spread(mut durations_ms: Vec<f64>) -> serde_json::Value {
    let at = |part| rounded(at(&mut durations_ms.clone(), part));
    let spread = json!({"p50": at(0.5), "p99": at(0.99), "max": at(1.0)});
    durations_ms.clear();
    spread
}

fn at(durations_ms: &mut [f64], part: f64) -> f64 {
    durations_ms.sort_by(f64::total_cmp);
    let index = (part * durations_ms.len() as f64) as usize;
    let last = durations_ms.len().saturating_sub(1);
    durations_ms.get(index.min(last)).copied().unwrap_or(0.0)
}

/// One page appended and flushed, over and over: as fast as the disk can, or as calls come, with a page due at each call's
/// time. While a disk stands still for ten milliseconds, one flush of the first kind is slow, but ten of the second, as ten
/// calls are.
fn flush(folder: &Path, pages_per_second: Option<u32>) -> Result<Vec<f64>, String> {
    let measured = || {
        let mut file = File::create(folder.join("flushed"))?;
        let page = [7_u8; 4_096];
        let pages = pages_per_second.map_or(FLUSHES, |rate| rate * STEADY_SECONDS);
        let mut durations = Vec::new();
        let begun = Instant::now();
        for number in 0..pages {
            let start = match pages_per_second {
                None => Instant::now(),
                Some(rate) => due_at(begun, rate, number),
            };
            file.write_all(&page)?;
            file.sync_data()?;
            durations.push(start.elapsed().as_secs_f64() * 1_000.0);
        }
        Ok(durations)
    };
    measured().map_err(|error: std::io::Error| error.to_string())
}

/// Waits until the due time of this request, at a steady rate, and returns it.
fn due_at(begun: Instant, per_second: u32, number: u32) -> Instant {
    let due = begun + Duration::from_secs(1) / per_second * number;
    std::thread::sleep(due.saturating_duration_since(Instant::now()));
    due
}

fn conversation(number: u32) -> ConversationRef {
    ConversationRef {
        tenant: TenantId::default(),
        conversation_id: ConversationId::new(format!("c-{:032x}", number % CONVERSATIONS)),
        user_id: UserId::new(format!("user-{}", number % CONVERSATIONS)),
    }
}

fn leg(number: u32) -> LegRef {
    LegRef {
        leg: SessionId::new(format!("s-{:032x}", number % CONVERSATIONS)),
        epoch: Epoch(1),
    }
}

/// A leg for each conversation, as a session begins with it.
fn beginning(number: u32) -> Batch {
    let leg = NewLeg {
        leg: leg(number).leg,
        mode: Mode::Voice,
        client_id: ClientId::new(format!("client-{number}")),
        resume_token: [0; 32],
        expires_in_ms: 3_600_000,
    };
    Batch {
        conversation: conversation(number),
        commands: vec![
            Command::Open(Beginner::default()),
            Command::Attach(Box::new(leg)),
        ],
    }
}

/// The request that a session makes before a change starts, in the core's form.
fn request(number: u32) -> Batch {
    let mut nonce = [0; 16];
    nonce[..4].copy_from_slice(&number.to_le_bytes());
    let arguments = format!("{{\"attendees\":[],\"title\":\"Lunch {number}\"}}");
    let request = Request {
        nonce: Nonce(nonce),
        effect_id: effect_id(number),
        leg: leg(number),
        call: u64::from(number),
        tool: ToolFacts {
            id: ToolId::parse("calendar_create_event").expect("the id keeps its rule"),
            version: "1.0.0".to_owned(),
            handler_hash: None,
            writes: true,
            idempotent: false,
            repeatable: false,
            has_lookup: false,
            is_background: false,
            is_external: false,
            key_spec: Arc::default(),
        },
        arguments: Sensitive(arguments.clone()),
        effect_arguments: Sensitive(arguments.clone()),
        near_arguments: Sensitive(arguments),
        origin: RequestOrigin::Model {
            delivery: format!("provider:function-call-{number:020}"),
            generation: 1,
        },
        onset: None,
        may_run: true,
        needs_consent: false,
        because: None,
        clock: None,
        standing_values: None,
        ignores_external_content: false,
        can_ask: true,
        mode: Mode::Voice,
        preview: Sensitive("Create Lunch with 0 guests".to_owned()),
        lease_ms: 15_000,
        question_ms: 300_000,
        intent: Sensitive("{\"x\":\"about as long as the intention of a call is\"}".repeat(5)),
        input: None,
    };
    Batch {
        conversation: conversation(number),
        commands: vec![Command::Request(Box::new(request))],
    }
}

fn effect_id(number: u32) -> EffectId {
    EffectId::new(format!(
        "{:012x}-{number:032x}",
        NOW_UNIX_MS + u64::from(number)
    ))
}

fn record(number: u32) -> Batch {
    let record = Record {
        next_attempt_ms: None,
        effect_id: effect_id(number),
        attempt: AttemptNumber(1),
        outcome: AttemptOutcome::Succeeded,
        receipt: Some(Sensitive(format!(
            "{{\"ok\":true,\"data\":\"{}\"}}",
            "x".repeat(300)
        ))),
        asks: None,
        values: None,
    };
    Batch {
        conversation: conversation(number),
        commands: vec![Command::Record(Box::new(record))],
    }
}

/// Milliseconds from the moment at which each call was due until the ledger had it committed, with its outcome behind it.
fn request_all(folder: &Path) -> Result<Vec<f64>, String> {
    let settings = windlass_store::StoreSettings {
        key: ServerKey::new([7; 32]),
        owner: OwnerId("p-1".to_owned()),
        clock: Arc::new(|| NOW_UNIX_MS),
        limits: windlass_store::StoreLimits::default(),
    };
    let store = SqliteStore::open(folder, settings).map_err(|error| error.to_string())?;
    let calls = WARM_UP + SECONDS * CALLS_PER_SECOND;
    let beginnings: Vec<Batch> = (0..CONVERSATIONS).map(beginning).collect();
    store
        .commit(&beginnings)
        .map_err(|error| error.to_string())?;
    let surroundings = Surroundings::with_audit(None);
    let thread = StoreThread::start(Arc::new(store), ThreadSettings::default(), surroundings)
        .map_err(|error| error.to_string())?;
    let handle = thread.handle();
    let (sender, receiver) = mpsc::channel::<(u32, Instant, PendingReplies)>();
    std::thread::scope(|scope| {
        let recording = handle.clone();
        // Answers come in the order of the requests, so that one thread can wait for all of them.
        let waiting = scope.spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .build()
                .map_err(|error| error.to_string())?;
            let mut durations = Vec::new();
            for (number, due, pending) in receiver {
                let replies = runtime
                    .block_on(pending)
                    .map_err(|error| error.to_string())?;
                if !matches!(replies.as_slice(), [Reply::Run(_)]) {
                    return Err(format!("call {number} does not run: {replies:?}"));
                }
                if number >= WARM_UP {
                    durations.push(due.elapsed().as_secs_f64() * 1_000.0);
                }
                drop(recording.apply(record(number)));
            }
            Ok(durations)
        });
        let start = Instant::now();
        for number in 0..calls {
            let due = due_at(start, CALLS_PER_SECOND, number);
            let pending = handle.apply(request(number));
            if sender.send((number, due, pending)).is_err() {
                break;
            }
        }
        drop(sender);
        waiting
            .join()
            .unwrap_or_else(|_| Err("the waiting thread broke".to_owned()))
    })
}

/// Milliseconds that reading a conversation of so many entries takes, as a session that is resumed does.
fn resume_all(folder: &Path) -> Result<Vec<f64>, String> {
    let settings = windlass_store::StoreSettings {
        key: ServerKey::new([7; 32]),
        owner: OwnerId("p-1".to_owned()),
        clock: Arc::new(|| NOW_UNIX_MS),
        limits: windlass_store::StoreLimits::default(),
    };
    let folder = folder.join("resumed");
    let store = SqliteStore::open(&folder, settings).map_err(|error| error.to_string())?;
    let entries = (1..=RESUMED_ENTRIES).map(|number| NewEntry {
        leg_number: Some(LegNumber(number)),
        key: None,
        event: EntryEvent::Said(Sensitive(format!(
            "{{\"kind\":\"words\",\"role\":\"user\",\"turn\":{number},\"text\":\"{}\"}}",
            "Who built the ship? ".repeat(5)
        ))),
    });
    let mut batch = beginning(0);
    let leg = leg(0);
    batch.commands.push(Command::Append {
        leg,
        entries: entries.collect(),
    });
    store.commit(&[batch]).map_err(|error| error.to_string())?;
    let mut durations = Vec::new();
    for _ in 0..RESUMES {
        let resume = Command::Resume(Presented {
            resume_token: [0; 32],
            client_id: ClientId::new("client-0"),
            user_id: conversation(0).user_id,
        });
        let batch = Batch {
            conversation: conversation(0),
            commands: vec![resume],
        };
        let start = Instant::now();
        let replies = store.commit(&[batch]).map_err(|error| error.to_string())?;
        durations.push(start.elapsed().as_secs_f64() * 1_000.0);
        let resumed = replies.into_iter().flatten().next();
        match resumed {
            Some(Reply::Resumed(resumed)) if resumed.log.len() as u64 >= RESUMED_ENTRIES => {}
            other => return Err(format!("the session was not resumed: {other:?}")),
        }
    }
    Ok(durations)
}
