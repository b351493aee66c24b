//! A server that is killed with `kill -9` again and again while a tool changes something outside: no change is ever asked for
//! twice, what the client was told is never lost, and what nobody can know is called unknown. The test starts itself again as
//! the server, so that it can have a tool of its own.

mod answered;
mod chat;
mod churn;
mod declined;
mod lost_answers;
mod process;
mod shop;
mod stopped;

use crate::support::live_model::Models;
use crate::support::voice_client::VoiceClient;
use process::{CONFIRMED, PLAIN, Process, TRACKED};
use serde_json::{Value, json};
use shop::{Patience, Shop};
use std::time::Duration;

/// How often servers are killed at random moments in all tests together, where nothing else is said. Kills at chosen moments
/// come on top.
const KILLS: u32 = 200;
/// The tests that share the kills, one for each tool that orders.
const TESTS: u32 = 3;
/// What the user types before the model orders.
const WISH: &str = "I want it.";
/// Says something else than [`KILLS`]: `cargo xtask soak --kills N` does.
const KILLS_VARIABLE: &str = "WINDLASS_TEST_KILLS";

/// When the server is killed, seen from the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// The user has said what is wanted, and nothing has begun: not even the question is answered where there is one.
    Wished,
    /// Some time after the model has asked.
    Asked,
    /// The shop has the order, and does not answer.
    Ordered,
    /// Some time after the shop has begun to answer.
    Answered,
    /// The client was told how it ended.
    Told,
    /// The model has its answer.
    Heard,
}

impl Moment {
    fn is_random(self) -> bool {
        match self {
            Self::Asked | Self::Answered => true,
            Self::Wished | Self::Ordered | Self::Told | Self::Heard => false,
        }
    }
}

/// The same numbers on every run (a linear congruential generator).
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    /// Three of four are random.
    fn moment(&mut self, tool: &str) -> Moment {
        match self.below(16) {
            0..8 => Moment::Asked,
            8..12 => Moment::Answered,
            12 => Moment::Ordered,
            13 => Moment::Told,
            14 => Moment::Wished,
            // What came of a question the model hears as words, at some time.
            _ if tool == CONFIRMED => Moment::Told,
            _ => Moment::Heard,
        }
    }

    /// No outcome that is tested depends on it.
    async fn pause(&mut self) {
        tokio::time::sleep(Duration::from_micros(self.below(25_000))).await;
    }
}

/// What came of all kills together.
#[derive(Debug, Default)]
struct Tally {
    /// Lines of the audit that a later server had to write.
    afterwards: usize,
    random: u32,
    resumed: u32,
    /// Killed before the session was saved for certain, and not taken up again.
    begun_anew: u32,
    done: u32,
    unknown: u32,
    /// Not begun: the user is still being asked.
    asked: u32,
    ledger: Ledger,
}

/// In how many rounds the next server found an effect in which state.
#[derive(Debug, Default)]
struct Ledger {
    none: u32,
    /// Running or unknown.
    open: u32,
    done: u32,
    not_done: u32,
}

impl Tally {
    /// Rounds that are over.
    fn rounds(&self) -> u32 {
        self.resumed + self.begun_anew
    }
}

impl Ledger {
    fn count(&mut self, found: Option<&str>) {
        *match found {
            None => &mut self.none,
            Some("running" | "unknown") => &mut self.open,
            Some("done") => &mut self.done,
            Some("not_done") => &mut self.not_done,
            Some(other) => panic!("an effect is {other}"),
        } += 1;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_kill_makes_a_change_happen_twice_or_loses_an_answer() {
    let tally = kill_again_and_again(PLAIN).await;
    println!("killed again and again: {tally:?}");
    assert!(tally.unknown > 0 && tally.asked == 0, "{tally:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_kill_makes_a_change_happen_twice_that_the_user_has_approved() {
    let tally = kill_again_and_again(CONFIRMED).await;
    println!("killed again and again: {tally:?}");
    assert!(tally.unknown > 0 && tally.asked > 0, "{tally:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_be_looked_up_is_known_after_every_kill() {
    let tally = kill_again_and_again(TRACKED).await;
    println!("killed again and again: {tally:?}");
    assert_eq!(tally.asked, 0, "{tally:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_knows_after_a_kill_is_done_again_with_the_users_word_alone() {
    for tool in [PLAIN, CONFIRMED] {
        let folder = tempfile::tempdir().unwrap();
        let shop = Shop::open();
        let mut models = Models::open().await;
        let mut process = Process::start(folder.path(), &models.url, &shop.address);
        let known = interrupted(
            &process.address,
            &mut models,
            &shop,
            &mut Seeded(7),
            (tool, Moment::Ordered, "tea"),
        )
        .await;
        process.kill();
        shop.be(Patience::Answers);
        let mut process = Process::start(folder.path(), &models.url, &shop.address);
        let mut client = connect(&process.address).await;
        client
            .send(json!({ "type": "start", "conversationId": known.conversation }))
            .await;
        client.expect("started").await;
        let mut model = models.next().await;
        let item = json!({ "item": known.conversation });
        model.call("call-0002", tool, item).await;
        let told = model.answer("call-0002").await;
        assert_eq!(told["error"]["type"], "CONFIRMATION_REQUIRED", "{told}");
        let question = client.expect("confirmation_request").await;
        assert!(question["warning"].is_string(), "{question}");
        assert_eq!(shop.orders("tea"), 1);
        let confirm = json!({ "type": "confirm", "token": question["token"], "approved": true });
        client.send(confirm).await;
        let result = client.expect("confirmation_result").await;
        assert_eq!(result["ok"], true, "{result}");
        assert_eq!(shop.orders("tea"), 2);
        process.kill();
    }
}

async fn kill_again_and_again(tool: &'static str) -> Tally {
    let kills = std::env::var(KILLS_VARIABLE).map_or(KILLS, |kills| kills.parse().unwrap());
    let kills = kills.div_ceil(TESTS);
    let folder = tempfile::tempdir().unwrap();
    let shop = Shop::open();
    let mut models = Models::open().await;
    let mut seeded = Seeded(7);
    let mut tally = Tally::default();
    let mut process = Process::start(folder.path(), &models.url, &shop.address);
    while tally.random < kills {
        let moment = seeded.moment(tool);
        tally.random += u32::from(moment.is_random());
        let conversation = format!("round-{}", tally.rounds());
        let mut known = interrupted(
            &process.address,
            &mut models,
            &shop,
            &mut seeded,
            (tool, moment, &conversation),
        )
        .await;
        process.kill();
        // What the user had typed was given to the store before the order was reserved, and the store keeps that order.
        known.is_saved = shop.orders(&conversation) > 0;
        shop.be(Patience::Answers);
        process = Process::start(folder.path(), &models.url, &shop.address);
        let found = process::standing(folder.path(), &conversation);
        tally.ledger.count(found.as_deref());
        let outcome = continued(&process.address, &mut models, &known, &mut tally).await;
        judge(&shop, &known, &outcome, &mut tally);
    }
    assert!(tally.done > 0 && tally.resumed > 0, "{tally:?}");
    let Ledger {
        none, open, done, ..
    } = tally.ledger;
    assert!(none > 0 && open > 0 && done > 0, "{tally:?}");
    assert_eq!(shop.keys_asked_twice(), Vec::<String>::new());
    // The last kill's line, too, is written by the next server.
    process.kill();
    let mut process = Process::start(folder.path(), &models.url, &shop.address);
    process::until_audited(folder.path(), &shop.keys()).await;
    process.kill();
    tally.afterwards = process::verify_audit(folder.path(), &shop.keys());
    assert!(
        tally.afterwards > 0,
        "no kill came between a change and its line"
    );
    tally
}

/// What is certain of a call whose server was killed.
struct Known {
    tool: &'static str,
    moment: Moment,
    conversation: String,
    token: String,
    /// What the client or the model was told, if they were.
    receipt: Option<Value>,
    /// The store must have had the session when the server was killed.
    is_saved: bool,
}

/// Has the model ask for a change, and goes as far as the moment.
async fn interrupted(
    address: &str,
    models: &mut Models,
    shop: &Shop,
    seeded: &mut Seeded,
    (tool, moment, conversation): (&'static str, Moment, &str),
) -> Known {
    shop.be(match moment {
        Moment::Ordered => Patience::IsSilent,
        Moment::Wished | Moment::Asked | Moment::Answered | Moment::Told | Moment::Heard => {
            Patience::Answers
        }
    });
    let mut client = connect(address).await;
    let start = json!({ "type": "start", "conversationId": conversation });
    client.send(start).await;
    let started = client.expect("started").await;
    let mut model = models.next().await;
    client.send(json!({ "type": "text", "text": WISH })).await;
    while !model.next().await.to_string().contains(WISH) {}
    if moment != Moment::Wished || tool == CONFIRMED {
        let item = json!({ "item": conversation });
        model.call("call-0001", tool, item).await;
    }
    if tool == CONFIRMED {
        let question = client.expect("confirmation_request").await;
        let confirm = json!({ "type": "confirm", "token": question["token"], "approved": true });
        if moment != Moment::Wished {
            client.send(confirm).await;
        }
    }
    let mut receipt = None;
    match moment {
        Moment::Wished => {}
        Moment::Asked => seeded.pause().await,
        Moment::Ordered => shop.until_asked(conversation).await,
        Moment::Answered => {
            shop.until_asked(conversation).await;
            seeded.pause().await;
        }
        Moment::Told if tool == CONFIRMED => {
            let result = client.expect("confirmation_result").await;
            assert_eq!(result["ok"], true, "{result}");
            receipt = Some(json!(shop.receipt(conversation)));
        }
        Moment::Told => {
            let finished = client.expect("tool_call_finished").await;
            assert_eq!(finished["ok"], true, "{finished}");
            receipt = Some(json!(shop.receipt(conversation)));
        }
        Moment::Heard => receipt = Some(receipt_of(&model.answer("call-0001").await)),
    }
    Known {
        tool,
        moment,
        conversation: conversation.to_owned(),
        token: started["resumeToken"].as_str().unwrap().to_owned(),
        receipt,
        is_saved: false,
    }
}

/// The client comes back to the next server, and the model asks for the same again, under another id.
async fn continued(address: &str, models: &mut Models, known: &Known, tally: &mut Tally) -> Value {
    let mut client = connect(address).await;
    client
        .send(json!({ "type": "start", "resume": known.token }))
        .await;
    // Nobody waits for a session to be saved, so that one that was killed early may not be known.
    let started = client.started_or_refused().await;
    if let Some(started) = &started {
        assert_eq!(started["conversationId"], known.conversation.as_str());
        tally.resumed += 1;
    } else {
        assert!(!known.is_saved, "{:?} {}", known.moment, known.conversation);
        tally.begun_anew += 1;
        client = connect(address).await;
        let start = json!({ "type": "start", "conversationId": known.conversation });
        client.send(start).await;
        client.expect("started").await;
    }
    let mut model = models.next().await;
    let item = json!({ "item": known.conversation });
    model.call("call-0002", known.tool, item).await;
    let outcome = model.answer("call-0002").await;
    client.send(json!({ "type": "stop" })).await;
    client.expect_close().await;
    outcome
}

fn judge(shop: &Shop, known: &Known, outcome: &Value, tally: &mut Tally) {
    let orders = shop.orders(&known.conversation);
    let context = format!("{:?} {}: {outcome}", known.moment, known.conversation);
    assert!(orders <= 1, "{orders} orders; {context}");
    if let Some(error) = outcome.get("error") {
        assert_eq!(error["type"], "CONFIRMATION_REQUIRED", "{context}");
        let message = error["message"].as_str().unwrap();
        if !message.contains("nobody knows") {
            assert_eq!(known.tool, CONFIRMED, "{context}");
            assert_eq!((orders, &known.receipt), (0, &None), "{context}");
            tally.asked += 1;
            return;
        }
        assert!(known.receipt.is_none(), "an answer was lost; {context}");
        tally.unknown += 1;
        return;
    }
    assert_eq!(orders, 1, "{context}");
    assert!(
        known.moment != Moment::Ordered || known.tool == TRACKED,
        "nobody can know that; {context}"
    );
    let receipt = receipt_of(outcome);
    assert_eq!(
        receipt,
        json!(shop.receipt(&known.conversation)),
        "{context}"
    );
    if let Some(told) = &known.receipt {
        assert_eq!(receipt, *told, "{context}");
    }
    tally.done += 1;
}

fn receipt_of(response: &Value) -> Value {
    response["output"]["data"]["receipt"].clone()
}

/// The same client each time: one that has signed in.
async fn connect(address: &str) -> VoiceClient {
    VoiceClient::connect(address, &[(process::USER_HEADER, "ada")])
        .await
        .unwrap()
}
