//! Measures the cost of authenticating a request: with an API key, and with a ticket, which is used up each time.

use crate::measure::{PASS, cost, print, rounded};
use serde_json::json;
use windlass_app::Entrance;
use windlass_app::server::config::{Flag, Loaded, Sources};

/// Tickets that are made before they are shown.
const TICKETS: usize = 200_000;

pub(crate) fn run() -> Result<(), String> {
    let data = tempfile::tempdir().map_err(|error| error.to_string())?;
    let flag = |key, value: String| Flag {
        name: "bench",
        key,
        value,
    };
    let loaded = Loaded::load(&Sources {
        working_directory: data.path().to_owned(),
        flags: vec![
            flag("folders.data", data.path().display().to_string()),
            flag("access.tickets_max", TICKETS.to_string()),
            flag("access.ticket_seconds", "600".to_owned()),
        ],
        ..Sources::default()
    });
    let config = loaded.map_err(|error| format!("{error:?}"))?.config;
    let entrance = Entrance::new(&config).map_err(|failure| format!("{failure:?}"))?;
    let mut taken = 0;
    let of_key = cost(PASS, |_| taken += usize::from(entrance.takes_key()));
    let tickets: Vec<_> = (0..TICKETS).map(|_| entrance.ticket()).collect();
    let mut tickets = tickets.iter();
    let mut used = 0;
    let mut over = 0;
    let of_ticket = cost(PASS / 20, |_| match tickets.next() {
        Some(ticket) => used += usize::from(entrance.takes(ticket)),
        None => over += 1,
    });
    if taken == 0 || used == 0 || over > 0 {
        return Err(format!(
            "{taken} keys and {used} tickets were taken, and {over} were missing"
        ));
    }
    for (label, cost) in [("key", of_key), ("ticket", of_ticket)] {
        print(&json!({
            "bench": "entrance", "label": label, "requests": cost.calls,
            "cpu_us_per_request": rounded(cost.processor_ns_per_call() / 1_000.0),
        }));
    }
    Ok(())
}
