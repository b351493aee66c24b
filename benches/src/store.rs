//! Measures what a durable reservation costs at a steady rate of calls, beside what the same disk takes for one flush.

use crate::measure::{print, rounded};
use serde_json::json;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use windlass_runtime::store_thread::{Pending, StoreSettings, StoreThread, Surroundings};
use windlass_store::{
    Outcome, OutcomeState, Proposal, Reserve, Reserved, SqliteStore, Store, StoreUnavailable,
};
use windlass_tool::id::{ConversationId, EffectId, ToolId, UserId};
use windlass_tool::sensitive::Sensitive;

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
    let reservations = reserve_all(folder.path())?;
    flushes.extend(flush(folder.path(), None)?);
    steady.extend(flush(folder.path(), Some(CALLS_PER_SECOND))?);
    let reserve_p99 = at(&mut reservations.clone(), 0.99);
    print(&json!({
        "bench": "store", "calls_per_s": CALLS_PER_SECOND, "calls": reservations.len(),
        "p99_in_fsync_p99": rounded(reserve_p99 / at(&mut flushes, 0.99)),
        "p99_in_steady_fsync_p99": rounded(reserve_p99 / at(&mut steady, 0.99)),
        "reserve_grant_audit_ms": spread(reservations), "fsync_ms": spread(flushes),
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

/// Waits until the time of one of those that come at a steady rate, and returns it.
fn due_at(begun: Instant, per_second: u32, number: u32) -> Instant {
    let due = begun + Duration::from_secs(1) / per_second * number;
    std::thread::sleep(due.saturating_duration_since(Instant::now()));
    due
}

fn request(number: u32) -> Reserve {
    let mut hash = [0; 32];
    hash[..4].copy_from_slice(&number.to_le_bytes());
    Reserve {
        effect_id: EffectId::new(format!(
            "{:012x}-{number:032x}",
            NOW_UNIX_MS + u64::from(number)
        )),
        conversation_id: ConversationId::new(format!("c-{:032x}", number % 500)),
        user_id: UserId::new(format!("user-{}", number % 500)),
        tool: ToolId::parse("calendar_create_event").expect("the id keeps its rule"),
        tool_version: "1.0.0".to_owned(),
        fingerprint: hash,
        grant: Some(hash),
        read_by_none_but: None,
        intent: Sensitive("{\"x\":\"about as long as the intention of a call is\"}".repeat(5)),
        now_unix_ms: NOW_UNIX_MS,
    }
}

fn proposal(request: &Reserve) -> Proposal {
    Proposal {
        token_hash: request.fingerprint,
        effect_id: request.effect_id.clone(),
        conversation_id: request.conversation_id.clone(),
        user_id: request.user_id.clone(),
        tool: request.tool.clone(),
        tool_version: request.tool_version.clone(),
        fingerprint: request.fingerprint,
        arguments: Sensitive("{\"title\":\"Lunch\",\"attendees\":[]}".to_owned()),
        preview: Sensitive("Create Lunch with 0 guests".to_owned()),
        says_unknown: false,
        expires_at_unix_ms: NOW_UNIX_MS + 300_000,
        now_unix_ms: NOW_UNIX_MS,
    }
}

fn outcome(number: u32) -> Outcome {
    Outcome {
        effect_id: request(number).effect_id,
        state: OutcomeState::Succeeded,
        response: Some(Sensitive(format!(
            "{{\"ok\":true,\"data\":\"{}\"}}",
            "x".repeat(300)
        ))),
        now_unix_ms: NOW_UNIX_MS,
    }
}

/// Milliseconds from the moment at which each call was due until its reservation was durable.
fn reserve_all(folder: &Path) -> Result<Vec<f64>, String> {
    let limits = windlass_store::StoreLimits {
        grants_max: usize::MAX,
        ..Default::default()
    };
    let store = SqliteStore::open_with(folder, limits).map_err(|error| error.to_string())?;
    let calls = WARM_UP + SECONDS * CALLS_PER_SECOND;
    propose_all(&store, calls).map_err(|error| error.to_string())?;
    let surroundings = Surroundings {
        now_unix_ms: Box::new(|| NOW_UNIX_MS),
        abandoned: Box::new(|_| {}),
        admits_effects: Arc::new(|| Ok(())),
    };
    let thread = StoreThread::start(Arc::new(store), StoreSettings::default(), surroundings)
        .map_err(|error| error.to_string())?;
    let handle = thread.handle();
    let (sender, receiver) = mpsc::channel::<(u32, Instant, Pending<Reserved>)>();
    std::thread::scope(|scope| {
        let recording = handle.clone();
        // Answers come in the order of the questions, so that one thread can wait for all of them.
        let waiting = scope.spawn(move || {
            let mut durations = Vec::new();
            for (number, due, pending) in receiver {
                match pending.wait() {
                    Ok(Reserved::Reserved | Reserved::ReservedAgain) => {}
                    Ok(Reserved::Refused(refusal)) => return Err(format!("{refusal:?}")),
                    Err(error) => return Err(error.to_string()),
                }
                if number >= WARM_UP {
                    durations.push(due.elapsed().as_secs_f64() * 1_000.0);
                }
                drop(recording.record(outcome(number)));
            }
            Ok(durations)
        });
        let start = Instant::now();
        for number in 0..calls {
            let due = due_at(start, CALLS_PER_SECOND, number);
            if sender
                .send((number, due, handle.reserve(request(number))))
                .is_err()
            {
                break;
            }
        }
        drop(sender);
        waiting
            .join()
            .unwrap_or_else(|_| Err("the waiting thread broke".to_owned()))
    })
}

fn propose_all(store: &dyn Store, calls: u32) -> Result<(), StoreUnavailable> {
    let numbers: Vec<u32> = (0..calls).collect();
    for some in numbers.chunks(1_000) {
        store.ask(|tables| {
            for number in some {
                tables.propose(&proposal(&request(*number)))?;
            }
            Ok(())
        })?;
    }
    Ok(())
}
