//! A server that is stopped in the middle of a change, beyond its lease, while another goes on with its folder, and that then wakes
//! up: no change happens twice that nobody has approved. The lock file is unlinked by the test, as by an operator who thinks that
//! the first is gone; the program itself never does that.

use super::process::{self, KEYED, PLAIN, Process, TRACKED};
use super::shop::Shop;
use super::{Seeded, connect, receipt_of};
use crate::support::live_model::Models;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tokio::task::block_in_place;

const SERVERS_STOPPED: u32 = 50;
/// Servers that are stopped at one time: their leases run out together.
const AT_ONCE: u32 = 25;
/// Only a broken server takes that long.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the second server found and what came of it, over all rounds.
#[derive(Debug, Default)]
struct Tally {
    done: u32,
    asked: u32,
    /// The first server has ordered after it woke up.
    landed_late: u32,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_wakes_up_after_its_lease_does_nothing_a_second_time() {
    let mut tally = Tally::default();
    for first in (0..SERVERS_STOPPED).step_by(AT_ONCE as usize) {
        let rounds = (first..first + AT_ONCE).map(|round| tokio::spawn(stop_one(round)));
        for round in rounds.collect::<Vec<_>>() {
            let (has_done, is_late) = round.await.unwrap();
            tally.done += u32::from(has_done);
            tally.asked += u32::from(!has_done);
            tally.landed_late += u32::from(is_late);
        }
    }
    println!("stopped and woken up: {tally:?}");
    assert!(
        tally.done > 0 && tally.asked > 0 && tally.landed_late > 0,
        "{tally:?}"
    );
}

/// When the first server is stopped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// Before its order has begun or after that.
    Any,
    /// Its order has left.
    Ordered,
    /// Its order has begun, and leaves when it wakes up.
    Begun,
}

impl Moment {
    fn of(round: u32) -> Self {
        match round % 4 {
            0 => Self::Any,
            1 => Self::Ordered,
            _ => Self::Begun,
        }
    }
}

/// Whether the second server says that the change is done, and whether the first one has made it since.
async fn stop_one(round: u32) -> (bool, bool) {
    let tool = [PLAIN, TRACKED, KEYED][round as usize % 3];
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let shop = Shop::open_to_many();
    let mut models = Models::open().await;
    let item = json!({ "item": "tea" });
    // The models and the clients of other rounds go on while a process starts.
    let model_url = models.url.clone();
    let server = || block_in_place(|| Process::start_hasty(folder, &model_url, &shop.address));
    let mut stopped = server().unwrap();
    let start = json!({ "type": "start", "conversationId": "tea" });
    let mut client = connect(&stopped.address).await;
    client.send(start.clone()).await;
    client.expect("started").await;
    let mut first_model = models.next().await;
    first_model.call("call-0001", tool, item.clone()).await;
    let mut seeded = Seeded(u64::from(round));
    let moment = Moment::of(round);
    match moment {
        Moment::Any => {}
        Moment::Ordered => {
            process::open_way(folder);
            shop.until_asked("tea").await;
        }
        Moment::Begun => until(|| process::has_begun(folder)).await,
    }
    let lock = folder.join("data").join("windlass.lock");
    let mut process = loop {
        seeded.pause().await;
        stopped.stop();
        process::open_way(folder);
        // An earlier try has removed it.
        let _ = fs::remove_file(&lock);
        if let Some(process) = server() {
            break process;
        }
        // It was stopped while it wrote to the store, which nobody else opens then.
        if moment != Moment::Ordered {
            process::close_way(folder);
        }
        stopped.go_on();
    };
    if tool == KEYED {
        until_looked_up(folder).await;
    }
    let mut client = connect(&process.address).await;
    client.send(start).await;
    client.expect("started").await;
    let mut model = models.next().await;
    model.call("call-0002", tool, item).await;
    let outcome = model.answer("call-0002").await;
    let orders_before = shop.orders("tea");

    stopped.go_on();
    first_model.answer("call-0001").await;
    until(|| process::under_way(folder) == 0).await;
    judge(tool, &shop, &outcome);
    stopped.kill();
    process.kill();
    let has_done = outcome.get("error").is_none();
    (has_done, shop.orders("tea") > orders_before)
}

fn judge(tool: &str, shop: &Shop, outcome: &Value) {
    let keys: BTreeSet<String> = shop.keys().into_iter().collect();
    let changes = match tool {
        KEYED => keys.len(),
        _ => shop.orders("tea"),
    };
    assert!(changes <= 1, "{changes} by {tool}: {outcome}");
    match outcome.get("error") {
        Some(error) => assert_eq!(error["type"], "CONFIRMATION_REQUIRED", "{outcome}"),
        None if tool == KEYED => assert_eq!(changes, 1, "{outcome}"),
        None => assert_eq!(receipt_of(outcome), json!(shop.receipt("tea")), "{outcome}"),
    }
}

/// The change has not begun, or its lease is over and the shop was asked about it.
async fn until_looked_up(folder: &Path) {
    until(|| {
        let standing = process::standing(folder, "tea");
        matches!(standing.as_deref(), None | Some("done" | "not_done"))
    })
    .await;
}

async fn until(is_so: impl Fn() -> bool) {
    let waits = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waits)
        .await
        .expect("it never comes");
}
