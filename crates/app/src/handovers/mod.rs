//! Tickets by which conversations are handed over to people: a file each in the data folder, with bounds and an end, and the webhook
//! that gets each ticket until it has taken it. Knows no session, no route and no tool. (The tickets with which callers sign in are
//! `access::tickets`.)

mod ticket;
pub(crate) mod webhook;

pub(crate) use ticket::Ticket;

use crate::clock;
use crate::failure::Failure;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use ticket::{Written, is_id};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use webhook::{Posted, Webhook, WebhookSettings};
use windlass_config::Config;
use windlass_contract::handler::{
    CapabilityFuture, Handover, HandoverError, Handovers, NewHandover,
};
use windlass_contract::id::TenantId;
use windlass_contract::private;
use windlass_contract::sensitive::Sensitive;

/// The folder in the data folder, and the ending of its files' names.
const FOLDER: &str = "handovers";
const ENDING: &str = ".json";
/// The ending of a file's name while the file is being written.
const PART_ENDING: &str = ".part";
/// Files that are read at the start, and bytes of each: a ticket with as many answers as it takes, of four bytes a character, has
/// fewer.
const FILES_MAX: usize = 100_000;
const FILE_BYTES_MAX: u64 = 2 * 1024 * 1024;
/// Answers to one ticket.
const REPLIES_MAX: usize = 50;
const DAY_MS: u64 = 86_400_000;
/// The longest pause between two attempts at the webhook, and how often old tickets are looked for.
const PAUSE_MAX: Duration = Duration::from_secs(3_600);

/// All tickets of a server.
pub(crate) struct HandoverDesk {
    folder: PathBuf,
    limits: DeskLimits,
    tickets: Mutex<BTreeMap<String, Ticket>>,
    webhook: Option<Webhook>,
    opened: Notify,
    /// An answer could not be delivered.
    delivery_due: Notify,
}

struct DeskLimits {
    open_of_conversation_max: usize,
    open_of_user_max: usize,
    tickets_max: usize,
    kept_ms: u64,
}

/// Why an answer is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReplyRefused {
    #[error("there is no such ticket")]
    Unknown,
    #[error(
        "a ticket takes {} answers at most; reach the user in another way",
        REPLIES_MAX
    )]
    TooMany,
    /// The text is for operators.
    #[error("the answer cannot be stored: {0}")]
    Unavailable(String),
}

impl HandoverDesk {
    /// Reads the existing tickets. The log names a file that is no ticket, and the file stays as it is.
    ///
    /// # Errors
    ///
    /// The webhook cannot be signed for, or the folder cannot be read.
    pub(crate) fn open(config: &Config) -> Result<Arc<Self>, Failure> {
        let settings = &config.escalation;
        let folder = config.folders.data.join(FOLDER);
        let tickets = read_all(&folder).map_err(|error| {
            Failure::Failed(format!(
                "the tickets in {} cannot be read: {error}",
                folder.display()
            ))
        })?;
        Ok(Arc::new(Self {
            folder,
            limits: DeskLimits {
                open_of_conversation_max: settings.open_of_conversation_max.count(),
                open_of_user_max: settings.open_of_user_max.count(),
                tickets_max: settings.tickets_max.count(),
                kept_ms: settings.keep_days.get().saturating_mul(DAY_MS),
            },
            tickets: Mutex::new(tickets),
            webhook: Webhook::of(
                config,
                WebhookSettings {
                    section: "escalation",
                    address: settings.webhook.as_ref(),
                    secret: settings.webhook_secret.as_ref(),
                },
            )?,
            opened: Notify::new(),
            delivery_due: Notify::new(),
        }))
    }

    /// The desk as the tools of a tenant see it.
    pub(crate) fn of_tenant(self: &Arc<Self>, tenant: &TenantId) -> Arc<dyn Handovers> {
        Arc::new(TenantsDesk {
            desk: self.clone(),
            tenant: tenant.clone(),
        })
    }

    /// Tickets of a tenant, the newest first, and the number of the others.
    pub(crate) fn list(
        &self,
        tenant: &TenantId,
        only_open: bool,
        tickets_max: usize,
    ) -> (Vec<Ticket>, usize) {
        let tickets = self.lock();
        let is_meant =
            |ticket: &&Ticket| ticket.tenant == *tenant && (!only_open || ticket.is_open());
        let mut found: Vec<&Ticket> = tickets.values().filter(is_meant).collect();
        found.sort_by(|one, other| {
            let newest = other.opened_at_unix_ms.cmp(&one.opened_at_unix_ms);
            newest.then_with(|| one.id.cmp(&other.id))
        });
        let left_out = found.len().saturating_sub(tickets_max);
        let shown = found.into_iter().take(tickets_max).cloned();
        (shown.collect(), left_out)
    }

    /// Takes a person's answer. Returns the ticket with it, and the answer's position. An answer equal to an earlier one counts as that
    /// one.
    pub(crate) fn reply(
        &self,
        tenant: &TenantId,
        id: &str,
        author: Option<String>,
        text: Sensitive<String>,
    ) -> Result<(Ticket, usize), ReplyRefused> {
        let mut tickets = self.lock();
        let known = tickets.get_mut(id).filter(|known| known.tenant == *tenant);
        let known = known.ok_or(ReplyRefused::Unknown)?;
        let is_same = |reply: &Written| reply.text == text && reply.author == author;
        if let Some(place) = known.replies.iter().position(is_same) {
            return Ok((known.clone(), place));
        }
        if known.replies.len() >= REPLIES_MAX {
            return Err(ReplyRefused::TooMany);
        }
        let mut answered = known.clone();
        let now_unix_ms = clock::now_unix_ms();
        answered.changed_at_unix_ms = now_unix_ms;
        answered.replies.push(Written {
            author,
            text,
            at_unix_ms: now_unix_ms,
        });
        self.write(&answered)
            .map_err(|error| ReplyRefused::Unavailable(error.to_string()))?;
        known.clone_from(&answered);
        let place = answered.replies.len() - 1;
        Ok((answered, place))
    }

    fn take(&self, request: NewHandover, tenant: &TenantId) -> Result<Handover, HandoverError> {
        let now_unix_ms = clock::now_unix_ms();
        let unavailable = HandoverError::Unavailable;
        if !is_id(&request.id) {
            return Err(unavailable(
                "a ticket's id has letters and digits".to_owned(),
            ));
        }
        let mut tickets = self.lock();
        if let Some(known) = tickets.get(&request.id) {
            return match known.tenant == *tenant {
                true => Ok(known.handover()),
                false => Err(unavailable("the ticket is another tenant's".to_owned())),
            };
        }
        self.remove_old(&mut tickets, now_unix_ms);
        let ticket = Ticket::new(request, tenant.clone(), now_unix_ms);
        self.refuse_too_many(&tickets, &ticket)?;
        self.make_room(&mut tickets, tenant).map_err(unavailable)?;
        self.write(&ticket)
            .map_err(|error| unavailable(error.to_string()))?;
        let handover = ticket.handover();
        tickets.insert(ticket.id.clone(), ticket);
        drop(tickets);
        self.opened.notify_one();
        Ok(handover)
    }

    fn refuse_too_many(
        &self,
        tickets: &BTreeMap<String, Ticket>,
        new: &Ticket,
    ) -> Result<(), HandoverError> {
        let open = || {
            let of_tenant = tickets.values().filter(|one| one.tenant == new.tenant);
            of_tenant.filter(|one| one.is_open())
        };
        let of_conversation = open()
            .filter(|one| one.conversation_id == new.conversation_id)
            .count();
        let of_user = open().filter(|one| one.user_id == new.user_id).count();
        let limits = &self.limits;
        for (count, max, whose) in [
            (
                of_conversation,
                limits.open_of_conversation_max,
                "conversation",
            ),
            (of_user, limits.open_of_user_max, "user"),
        ] {
            if count >= max {
                return Err(HandoverError::TooMany(format!(
                    "{count} tickets of this {whose} wait for a person's answer already, and no more are opened until then"
                )));
            }
        }
        Ok(())
    }

    /// The oldest ticket of the same tenant that was answered gives way: no tenant takes another's room.
    fn make_room(
        &self,
        tickets: &mut BTreeMap<String, Ticket>,
        tenant: &TenantId,
    ) -> Result<(), String> {
        loop {
            let of_tenant = tickets.values().filter(|ticket| ticket.tenant == *tenant);
            if of_tenant.clone().count() < self.limits.tickets_max {
                return Ok(());
            }
            let settled = of_tenant.filter(|ticket| ticket.is_settled());
            let oldest = settled.min_by_key(|ticket| ticket.changed_at_unix_ms);
            let Some(oldest) = oldest.map(|ticket| ticket.id.clone()) else {
                return Err(
                    "as many tickets as are kept wait for an answer; answer some, or raise escalation.tickets_max"
                        .to_owned(),
                );
            };
            self.remove(tickets, &oldest);
        }
    }

    fn remove_old(&self, tickets: &mut BTreeMap<String, Ticket>, now_unix_ms: u64) {
        let oldest = now_unix_ms.saturating_sub(self.limits.kept_ms);
        let is_old = |ticket: &&Ticket| ticket.changed_at_unix_ms < oldest;
        let old: Vec<String> = tickets
            .values()
            .filter(is_old)
            .map(|ticket| ticket.id.clone())
            .collect();
        for id in old {
            self.remove(tickets, &id);
        }
    }

    /// A file that stays is read at the next start, and is removed then.
    fn remove(&self, tickets: &mut BTreeMap<String, Ticket>, id: &str) {
        tickets.remove(id);
        if let Err(error) = fs::remove_file(self.path(id)) {
            tracing::warn!(ticket = id, %error, "an old ticket cannot be removed");
        }
    }

    fn path(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}{ENDING}"))
    }

    /// Replaces a ticket's file as a whole. It is durable when this returns.
    fn write(&self, ticket: &Ticket) -> io::Result<()> {
        private::create_folder(&self.folder)?;
        let text = serde_json::to_vec(ticket).map_err(io::Error::other)?;
        let part = self.folder.join(format!("{}{PART_ENDING}", ticket.id));
        let mut options = private::options();
        options.create(true).truncate(true);
        let mut file = options.open(&part)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&part, self.path(&ticket.id))?;
        // The new name lasts only with its folder.
        #[cfg(unix)]
        File::open(&self.folder)?.sync_all()?;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Ticket>> {
        // Each change is one step, so that a panic elsewhere leaves the table whole.
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// Delivery of answers to the conversations.
impl HandoverDesk {
    /// Tickets with answers that their conversations have not got: the process that took them ended before, or the log took nothing.
    pub(crate) fn undelivered(&self) -> Vec<Ticket> {
        let tickets = self.lock();
        let undelivered = tickets.values().filter(|ticket| ticket.has_undelivered());
        undelivered.cloned().collect()
    }

    /// The conversation has the first `count` answers. If this cannot be written, they are delivered once more after a restart, which
    /// changes nothing.
    pub(crate) fn note_delivered(&self, id: &str, count: usize) {
        let mut tickets = self.lock();
        let Some(ticket) = tickets
            .get_mut(id)
            .filter(|ticket| ticket.delivered_count < count)
        else {
            return;
        };
        ticket.delivered_count = count;
        if let Err(error) = self.write(ticket) {
            tracing::warn!(ticket = id, %error, "that an answer was told cannot be stored");
        }
    }

    /// An answer is to be delivered later.
    pub(crate) fn deliver_later(&self) {
        self.delivery_due.notify_one();
    }

    /// Waits until there is one, so long at most.
    pub(crate) async fn wait_for_delivery(&self, failures: Option<u32>) {
        let pause = failures.map_or(PAUSE_MAX, pause_after);
        tokio::select! {
            () = self.delivery_due.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

// The webhook.
impl HandoverDesk {
    /// Posts each ticket to the webhook until it has taken it, also those that an earlier process had opened, with growing pauses; and
    /// removes old tickets. Runs until the server is over.
    pub(crate) async fn follow(self: Arc<Self>, mut is_over: watch::Receiver<bool>) {
        let mut tried: BTreeMap<String, Tried> = BTreeMap::new();
        loop {
            let now = Instant::now();
            let desk = self.clone();
            // Files are removed on the way.
            let looking = tokio::task::spawn_blocking(move || desk.next_unsent(tried, now)).await;
            let next;
            // An error says that the runtime is over.
            let Ok(looked) = looking else { return };
            (tried, next) = looked;
            let sending = async {
                let pause = match next {
                    Some(Due::Now(ticket)) => return self.send(&ticket, &tried).await,
                    Some(Due::At(again_at)) => again_at.saturating_duration_since(now),
                    None => PAUSE_MAX,
                };
                tokio::select! {
                    () = self.opened.notified() => {}
                    () = tokio::time::sleep(pause.min(PAUSE_MAX)) => {}
                }
                None
            };
            let failed = tokio::select! {
                // An error says that the server is gone, too.
                _ = is_over.wait_for(|is_over| *is_over) => return,
                failed = sending => failed,
            };
            if let Some((id, again)) = failed {
                tried.insert(id, again);
            }
        }
    }

    /// Removes old tickets. Returns the next ticket for the webhook, if there is one, and the state of those that were sent in vain and
    /// still wait.
    fn next_unsent(
        &self,
        mut tried: BTreeMap<String, Tried>,
        now: Instant,
    ) -> (BTreeMap<String, Tried>, Option<Due>) {
        let mut tickets = self.lock();
        self.remove_old(&mut tickets, clock::now_unix_ms());
        if self.webhook.is_none() {
            return (BTreeMap::new(), None);
        }
        let is_unsent = |ticket: &Ticket| ticket.is_open() && !ticket.is_sent;
        tried.retain(|id, _| tickets.get(id).is_some_and(is_unsent));
        let due = |ticket: &Ticket| tried.get(&ticket.id).map_or(now, |tried| tried.again_at);
        let unsent = tickets.values().filter(|ticket| is_unsent(ticket));
        let next = unsent.min_by_key(|ticket| due(ticket)).map(|ticket| {
            let again_at = due(ticket);
            match again_at <= now {
                true => Due::Now(Box::new(ticket.clone())),
                false => Due::At(again_at),
            }
        });
        (tried, next)
    }

    /// When a ticket that was not taken is sent again.
    async fn send(
        self: &Arc<Self>,
        ticket: &Ticket,
        tried: &BTreeMap<String, Tried>,
    ) -> Option<(String, Tried)> {
        let webhook = self.webhook.as_ref()?;
        let posted = Posted {
            id: ticket.id.clone(),
            kind: "ticket.opened",
            data: ticket.json(),
        };
        match webhook.send(posted).await {
            Ok(()) => {
                let (desk, id) = (self.clone(), ticket.id.clone());
                let noted = tokio::task::spawn_blocking(move || desk.note_sent(&id));
                drop(noted.await);
                None
            }
            Err(problem) => {
                let attempts = tried.get(&ticket.id).map_or(0, |tried| tried.attempts);
                let pause = pause_after(attempts);
                tracing::warn!(
                    ticket = %ticket.id,
                    %problem,
                    again_in_seconds = pause.as_secs(),
                    "escalation.webhook has not taken a ticket"
                );
                let tried = Tried {
                    attempts: attempts.saturating_add(1),
                    again_at: Instant::now() + pause,
                };
                Some((ticket.id.clone(), tried))
            }
        }
    }

    /// If this cannot be written, the ticket is sent once more after a restart, under the same id.
    fn note_sent(&self, id: &str) {
        let mut tickets = self.lock();
        let Some(ticket) = tickets.get_mut(id) else {
            return;
        };
        ticket.is_sent = true;
        if let Err(error) = self.write(ticket) {
            tracing::warn!(ticket = id, %error, "that a ticket was sent cannot be stored");
        }
    }
}

/// When the next ticket is sent.
enum Due {
    Now(Box<Ticket>),
    At(Instant),
}

/// The failed attempts to send a ticket.
#[derive(Clone, Copy, Debug)]
struct Tried {
    attempts: u32,
    again_at: Instant,
}

/// A second, then four times as long each time.
pub(crate) fn pause_after(attempts: u32) -> Duration {
    let seconds = 4_u64.checked_pow(attempts).unwrap_or(u64::MAX);
    Duration::from_secs(seconds).min(PAUSE_MAX)
}

/// The tickets of one tenant, for tools.
struct TenantsDesk {
    desk: Arc<HandoverDesk>,
    tenant: TenantId,
}

impl Handovers for TenantsDesk {
    fn open(&self, request: NewHandover) -> CapabilityFuture<Result<Handover, HandoverError>> {
        let (desk, tenant) = (self.desk.clone(), self.tenant.clone());
        Box::pin(async move {
            // A file is written until it is durable.
            let taken = tokio::task::spawn_blocking(move || desk.take(request, &tenant));
            let broken =
                |error: tokio::task::JoinError| Err(HandoverError::Unavailable(error.to_string()));
            taken.await.unwrap_or_else(broken)
        })
    }

    /// The lookup spans tenants: the settling of an earlier process's changes asks for all of them, and the id cannot be guessed.
    fn find(&self, id: String) -> CapabilityFuture<Result<Option<Handover>, HandoverError>> {
        let desk = self.desk.clone();
        Box::pin(async move {
            // Other tasks write files while they hold the table.
            let found = move || desk.lock().get(&id).map(Ticket::handover);
            let found = tokio::task::spawn_blocking(found).await;
            found.map_err(|error| HandoverError::Unavailable(error.to_string()))
        })
    }
}

/// The tickets of a folder; none where there is no folder.
fn read_all(folder: &Path) -> io::Result<BTreeMap<String, Ticket>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error),
    };
    let mut tickets = BTreeMap::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        if name
            .to_str()
            .is_some_and(|name| name.ends_with(PART_ENDING))
        {
            remove_part(&entry.path());
            continue;
        }
        if tickets.len() == FILES_MAX {
            tracing::warn!(
                folder = %folder.display(),
                "there are more than {FILES_MAX} tickets; the others are left out"
            );
            break;
        }
        let id = name.to_str().and_then(|name| name.strip_suffix(ENDING));
        let Some(id) = id.filter(|id| is_id(id)) else {
            continue;
        };
        match read(&entry.path(), id) {
            Ok(ticket) => {
                tickets.insert(id.to_owned(), ticket);
            }
            Err(problem) => {
                let file = entry.path();
                tracing::warn!(file = %file.display(), %problem, "a ticket is left out");
            }
        }
    }
    Ok(tickets)
}

/// Removes the unfinished file of an ended process.
fn remove_part(path: &Path) {
    if let Err(error) = fs::remove_file(path) {
        tracing::warn!(file = %path.display(), %error, "a ticket that was not written to its end cannot be removed");
    }
}

fn read(path: &Path, id: &str) -> Result<Ticket, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut text = Vec::new();
    let count = file
        .take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut text)
        .map_err(|error| error.to_string())?;
    if count as u64 > FILE_BYTES_MAX {
        return Err(format!("it has more than {FILE_BYTES_MAX} bytes"));
    }
    Ticket::read(&text, id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_contract::handler::Urgency;
    use windlass_contract::id::{ConversationId, UserId};

    fn desk(folder: &Path, tickets_max: usize) -> HandoverDesk {
        HandoverDesk {
            folder: folder.join(FOLDER),
            limits: DeskLimits {
                open_of_conversation_max: 2,
                open_of_user_max: 3,
                tickets_max,
                kept_ms: DAY_MS,
            },
            tickets: Mutex::new(read_all(&folder.join(FOLDER)).unwrap()),
            webhook: None,
            opened: Notify::new(),
            delivery_due: Notify::new(),
        }
    }

    fn new(id: &str, conversation: &str, user: &str) -> NewHandover {
        NewHandover {
            id: id.to_owned(),
            conversation_id: ConversationId::new(conversation),
            user_id: UserId::new(user),
            reason: Sensitive("R".to_owned()),
            summary: Sensitive("S".to_owned()),
            urgency: Urgency::High,
            contact: None,
        }
    }

    fn said(text: &str) -> Sensitive<String> {
        Sensitive(text.to_owned())
    }

    #[test]
    fn a_ticket_is_opened_once_and_survives_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let tenant = TenantId::default();
        let first = desk(folder.path(), 10);
        let opened = first.take(new("a", "c", "u"), &tenant).unwrap();
        assert_eq!(first.take(new("a", "c", "u"), &tenant), Ok(opened.clone()));
        let (answered, place) = first
            .reply(&tenant, "a", Some("Maya".to_owned()), said("Yes."))
            .unwrap();
        assert_eq!((answered.is_open(), place), (false, 0));
        drop(first);

        fs::write(folder.path().join(FOLDER).join("broken.json"), "{").unwrap();
        fs::write(folder.path().join(FOLDER).join("b.part"), "{").unwrap();
        let second = desk(folder.path(), 10);
        assert!(!folder.path().join(FOLDER).join("b.part").exists());
        assert_eq!(second.list(&tenant, false, 10), (vec![answered], 0));
        assert_eq!(second.list(&tenant, true, 10), (Vec::new(), 0));
        assert_eq!(second.take(new("a", "c", "u"), &tenant), Ok(opened));
    }

    #[test]
    fn a_tenant_reaches_its_own_tickets_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (own, other) = (TenantId::new("acme"), TenantId::new("other"));
        let desk = desk(folder.path(), 10);
        desk.take(new("a", "c", "u"), &own).unwrap();
        assert_eq!(
            desk.reply(&other, "a", None, said("Yes.")),
            Err(ReplyRefused::Unknown)
        );
        assert_eq!(desk.list(&other, false, 10), (Vec::new(), 0));
        assert!(desk.take(new("a", "c", "u"), &other).is_err());
        assert!(desk.take(new("../a", "c", "u"), &own).is_err());
    }

    #[tokio::test]
    async fn what_settles_changes_finds_the_tickets_of_all_tenants() {
        let folder = tempfile::tempdir().unwrap();
        let desk = Arc::new(desk(folder.path(), 10));
        let own = desk.of_tenant(&TenantId::new("acme"));
        let opened = own.open(new("a", "c", "u")).await.unwrap();
        let settling = desk.of_tenant(&TenantId::default());
        assert_eq!(settling.find("a".to_owned()).await, Ok(Some(opened)));
        assert_eq!(settling.find("b".to_owned()).await, Ok(None));
    }

    #[test]
    fn no_tenant_takes_anothers_room() {
        let folder = tempfile::tempdir().unwrap();
        let (own, other) = (TenantId::new("acme"), TenantId::new("other"));
        let desk = desk(folder.path(), 2);
        let open = |id, tenant| desk.take(new(id, id, id), tenant);
        for (id, tenant) in [("a", &own), ("b", &own), ("oa", &other), ("ob", &other)] {
            open(id, tenant).unwrap();
        }
        desk.reply(&other, "oa", None, said("Yes.")).unwrap();
        desk.note_delivered("oa", 1);
        // Its own wait, and another's answered one stays.
        assert!(open("c", &own).is_err());
        assert_eq!(desk.list(&other, false, 10).0.len(), 2);
        open("oc", &other).unwrap();
        assert_eq!(desk.list(&own, false, 10).0.len(), 2);
        assert_eq!(desk.list(&other, false, 10).0.len(), 2);
    }

    #[test]
    fn an_answer_waits_until_it_is_told_also_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let tenant = TenantId::default();
        let first = desk(folder.path(), 1);
        first.take(new("a", "c", "u"), &tenant).unwrap();
        assert_eq!(first.undelivered(), Vec::new());
        first.reply(&tenant, "a", None, said("Yes.")).unwrap();
        // Nothing makes room for others before.
        assert!(first.take(new("b", "d", "u"), &tenant).is_err());
        drop(first);

        let second = desk(folder.path(), 1);
        assert_eq!(second.undelivered().len(), 1);
        second.note_delivered("a", 1);
        assert_eq!(second.undelivered(), Vec::new());
        drop(second);

        let third = desk(folder.path(), 1);
        assert_eq!(third.undelivered(), Vec::new());
        third.reply(&tenant, "a", None, said("And.")).unwrap();
        assert_eq!(third.undelivered()[0].delivered_count, 1);
        third.note_delivered("a", 2);
        third.take(new("b", "d", "u"), &tenant).unwrap();
    }

    #[test]
    fn a_ticket_with_all_the_answers_that_it_takes_survives_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let tenant = TenantId::default();
        let first = desk(folder.path(), 1);
        first.take(new("a", "c", "u"), &tenant).unwrap();
        for number in 0..REPLIES_MAX {
            let text = format!("{number:04}{}", "\u{1f4e6}".repeat(3_996));
            let author = "\u{1f4e6}".repeat(100);
            first
                .reply(&tenant, "a", Some(author), Sensitive(text))
                .unwrap();
        }
        drop(first);
        let second = desk(folder.path(), 1);
        assert_eq!(
            second.list(&tenant, false, 1).0[0].replies.len(),
            REPLIES_MAX
        );

        // A file that no windlass has written is left where it is.
        let path = second.path("big");
        fs::write(
            &path,
            vec![b' '; usize::try_from(FILE_BYTES_MAX).unwrap() + 1],
        )
        .unwrap();
        assert!(
            read(&path, "big")
                .unwrap_err()
                .contains("more than 2097152 bytes")
        );
    }

    #[test]
    fn so_many_tickets_wait_and_so_many_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let tenant = TenantId::default();
        let desk = desk(folder.path(), 4);
        let open = |id, conversation, user| desk.take(new(id, conversation, user), &tenant);
        let refusal = |opened: Result<Handover, HandoverError>| opened.unwrap_err().to_string();
        open("a", "c", "u").unwrap();
        open("b", "c", "u").unwrap();
        assert!(refusal(open("x", "c", "v")).contains("2 tickets of this conversation"));
        open("d", "d", "u").unwrap();
        assert!(refusal(open("x", "e", "u")).contains("3 tickets of this user"));
        open("e", "e", "v").unwrap();
        assert!(refusal(open("x", "f", "w")).contains("escalation.tickets_max"));
        desk.reply(&tenant, "b", None, said("Yes.")).unwrap();
        desk.note_delivered("b", 1);
        open("f", "f", "w").unwrap();
        let (left, _) = desk.list(&tenant, false, 10);
        assert!(left.iter().all(|ticket| ticket.id != "b"));
        assert!(!desk.path("b").exists() && desk.path("f").exists());
        assert_eq!(desk.list(&tenant, true, 1).1, 3);

        let tomorrow = clock::now_unix_ms() + 2 * DAY_MS;
        desk.remove_old(&mut desk.lock(), tomorrow);
        assert_eq!(desk.list(&tenant, false, 10), (Vec::new(), 0));
    }

    #[test]
    fn an_answer_that_comes_again_is_the_same_and_there_are_not_too_many() {
        let folder = tempfile::tempdir().unwrap();
        let tenant = TenantId::default();
        let desk = desk(folder.path(), 4);
        desk.take(new("a", "c", "u"), &tenant).unwrap();
        let reply = |text: &str| desk.reply(&tenant, "a", None, said(text));
        assert_eq!(reply("Yes.").unwrap().1, 0);
        assert_eq!(reply("Yes.").unwrap().1, 0);
        for number in 1..REPLIES_MAX {
            assert_eq!(reply(&number.to_string()).unwrap().1, number);
        }
        assert_eq!(reply("Yes.").unwrap().1, 0);
        assert_eq!(reply("7").unwrap().1, 7);
        assert_eq!(reply("more"), Err(ReplyRefused::TooMany));
    }

    #[test]
    fn pauses_grow_up_to_an_hour() {
        let seconds = |attempts| pause_after(attempts).as_secs();
        assert_eq!([0, 1, 2, 5].map(seconds), [1, 4, 16, 1_024]);
        assert_eq!([6, 40].map(seconds), [3_600, 3_600]);
    }
}
