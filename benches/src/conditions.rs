//! Measures the costs of tools' conditions: one that judges a call's consent, one over a number of more digits than a machine's, and
//! those of 200 tools at the start of a session.

use crate::measure::{PASS, cost, print, rounded};
use serde_json::{Value, json};
use windlass_contract::arguments::Arguments;
use windlass_contract::condition::{Condition, Facts, Given, LocalClock};
use windlass_contract::kind::Mode;
use windlass_contract::rights::{Rights, Role};

const CONSENT: &str = "args.amount > 100 || !user.isAuthenticated || args.to in ('eve', 'mallory')";
const AVAILABLE: &str = "context.user.isAuthenticated && context.mode === 'voice' && ('staff' in roles || time.hour >= 9 \
                         && time.weekday in ('saturday', 'sunday'))";
const TOOLS: usize = 200;

pub(crate) fn run() -> Result<(), String> {
    let parse = |text: &str| Condition::parse(text).map_err(|flaw| flaw.to_string());
    let (consent, available) = (parse(CONSENT)?, parse(AVAILABLE)?);
    let rights = Rights::signed_in(["clerk", "nurse"].into_iter().filter_map(Role::parse));
    let given = Given {
        clock: LocalClock::new([(0, 3_600), (1_806_195_600_000, 7_200)]),
        ..Given::default()
    };
    let arguments = |amount: &str| -> Result<Arguments, String> {
        let amount: Value = amount
            .parse()
            .map_err(|_| format!("{amount} is no number"))?;
        let text = json!({ "amount": amount, "to": "ada" }).to_string();
        serde_json::from_str(&text).map_err(|error| error.to_string())
    };
    let (short, long) = (arguments("20")?, arguments("20.00000000000000000001")?);
    let facts = |arguments| Facts {
        rights: &rights,
        user_id: "user:ada",
        tenant: "default",
        mode: Mode::Voice,
        unix_ms: 1_795_885_200_000,
        given: &given,
        arguments,
    };
    let mut held = 0;
    let mut hold = |condition: &Condition, facts: &Facts<'_>, times: usize| {
        for _ in 0..times {
            held += usize::from(condition.holds(facts) == Ok(true));
        }
    };
    for (label, condition, arguments, times) in [
        ("consent", &consent, Some(&short), 1),
        ("consent over many digits", &consent, Some(&long), 1),
        ("availability of 200 tools", &available, None, TOOLS),
    ] {
        let facts = facts(arguments);
        let cost = cost(PASS, |_| hold(condition, &facts, times));
        print(&json!({
            "bench": "conditions", "label": label, "judgements": cost.calls,
            "cpu_us_per_judgement": rounded(cost.processor_ns_per_call() / 1_000.0),
        }));
    }
    match held {
        0 => Err("no condition held, though that of the tools does".to_owned()),
        _ => Ok(()),
    }
}
