//! The sharing of the server's capacity: the amounts that one address, one user and one tenant may hold at a time, and may use up
//! in a while. Owns the counting; the callers decide what is counted, and when.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use windlass_contract::id::{ClientId, TenantId};
use windlass_contract::sensitive::Sensitive;
use windlass_store::Beginner;

/// Parties that are counted at a time. If there are more, parties that hold nothing are forgotten first.
const PARTIES_MAX: usize = 100_000;
/// The retry time for a party at its limit of held things: the time of their release is unknown.
const HELD_RETRY: Duration = Duration::from_secs(5);

/// A party with a share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Party {
    Address(IpAddr),
    User(TenantId, ClientId),
    Tenant(TenantId),
}

impl Party {
    /// The party of an address. An owner of one IPv6 address has all that begin with the same 64 bits, so they count as one.
    pub fn address(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = u128::from(address) & (u128::MAX << 64);
                Ipv6Addr::from(network).into()
            }
            address @ IpAddr::V4(_) => address,
        })
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Address(_) => "address",
            Self::User(..) => "user",
            Self::Tenant(_) => "tenant",
        }
    }
}

/// A kind of thing that is held for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Connections of HTTP and of voice: of an address, or for a user or a tenant.
    Connections,
    Sessions,
    BodyBytes,
    /// Bytes of memory, held by turns that a model answers.
    TurnBytes,
}

/// A kind of thing that is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Used {
    Requests,
    Turns,
    Frames,
    FrameBytes,
}

/// The share of every party of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    pub connections_max: u64,
    pub sessions_max: u64,
    pub body_bytes_max: u64,
    pub turn_bytes_max: u64,
    pub requests_per_minute_max: u64,
    pub turns_per_minute_max: u64,
    pub frames_per_second_max: u64,
    pub frame_bytes_per_second_max: u64,
}

impl Share {
    fn held_max(&self, held: Held) -> u64 {
        match held {
            Held::Connections => self.connections_max,
            Held::Sessions => self.sessions_max,
            Held::BodyBytes => self.body_bytes_max,
            Held::TurnBytes => self.turn_bytes_max,
        }
    }

    /// The amount, and its period.
    fn used_max(&self, used: Used) -> (u64, Duration) {
        const MINUTE: Duration = Duration::from_secs(60);
        const SECOND: Duration = Duration::from_secs(1);
        match used {
            Used::Requests => (self.requests_per_minute_max, MINUTE),
            Used::Turns => (self.turns_per_minute_max, MINUTE),
            Used::Frames => (self.frames_per_second_max, SECOND),
            Used::FrameBytes => (self.frame_bytes_per_second_max, SECOND),
        }
    }
}

/// The share of each kind of party, and the limit of all of them together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareLimits {
    pub address: Share,
    pub user: Share,
    pub tenant: Share,
    /// Bytes of memory that all turns hold together.
    pub turn_bytes_max: u64,
}

impl ShareLimits {
    fn of(&self, party: &Party) -> &Share {
        match party {
            Party::Address(_) => &self.address,
            Party::User(..) => &self.user,
            Party::Tenant(_) => &self.tenant,
        }
    }
}

/// The error for a used-up share. The text is for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this {party} has used up its share of {what} here; come back in {} s", .retry_after.as_secs().max(1))]
pub struct Exceeded {
    pub party: &'static str,
    pub what: &'static str,
    pub retry_after: Duration,
}

/// Stands for all parties together.
const SERVER: &str = "server";

impl Exceeded {
    /// Whether the limit of all parties together is used up, and not the share of one.
    pub fn is_of_server(&self) -> bool {
        self.party == SERVER
    }
}

/// A caller or a connection, as the parties whose shares it uses.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    /// `None` if nothing is counted.
    shares: Option<Arc<Shares>>,
    parties: Arc<[Party]>,
}

impl Standing {
    pub fn new(shares: Arc<Shares>, parties: Vec<Party>) -> Self {
        Self {
            shares: Some(shares),
            parties: parties.into(),
        }
    }

    /// The same without its address, which has been charged already.
    #[must_use]
    pub fn with_the_address_charged(&self) -> Self {
        let others = self.parties.iter();
        let others = others.filter(|party| !matches!(party, Party::Address(_)));
        Self {
            shares: self.shares.clone(),
            parties: others.cloned().collect(),
        }
    }

    /// The same in the form in which the store counts conversations.
    pub fn beginner(&self) -> Beginner {
        let mut beginner = Beginner::default();
        for party in self.parties.iter() {
            match party {
                Party::Address(address) => beginner.address = Some(Sensitive(*address)),
                Party::User(_, user) => beginner.user = Some(user.clone()),
                Party::Tenant(_) => {}
            }
        }
        beginner
    }

    /// [`Shares::hold`]; `Ok(None)` if nothing is counted.
    pub fn hold(&self, held: Held, amount: u64) -> Result<Option<Holding>, Exceeded> {
        let held = |shares: &Arc<Shares>| shares.hold_of(self.parties.clone(), held, amount);
        self.shares.as_ref().map(held).transpose()
    }

    /// [`Shares::take`].
    pub fn take(&self, used: Used, amount: u64) -> Result<(), Exceeded> {
        let take = |shares: &Arc<Shares>| shares.take(&self.parties, used, amount);
        self.shares.as_ref().map_or(Ok(()), take)
    }

    /// [`Shares::spend`].
    pub fn spend(&self, used: Used, amount: u64) -> Duration {
        let spend = |shares: &Arc<Shares>| shares.spend(&self.parties, used, amount);
        self.shares.as_ref().map_or(Duration::ZERO, spend)
    }
}

/// The amounts that all parties hold and have used.
#[derive(Debug)]
pub struct Shares {
    limits: ShareLimits,
    table: Mutex<Table>,
    began: Instant,
}

#[derive(Debug, Default)]
struct Table {
    parties: HashMap<Party, Usage>,
    /// Bytes of memory that all turns hold together.
    turn_bytes: u64,
}

/// The amounts that one party holds, and the times until which its uses count.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    held: [u64; 4],
    /// Nanoseconds since the beginning, after which none of the uses counts any more.
    used_until: [u64; 4],
}

impl Usage {
    fn is_blank(&self, now: u64) -> bool {
        self.holds_nothing() && self.used_until.iter().all(|until| *until <= now)
    }

    fn holds_nothing(&self) -> bool {
        self.held.iter().all(|held| *held == 0)
    }
}

/// An amount that parties hold, until it is dropped.
#[derive(Debug)]
pub struct Holding {
    shares: Arc<Shares>,
    parties: Arc<[Party]>,
    held: Held,
    amount: u64,
}

impl Shares {
    pub fn new(limits: ShareLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            table: Mutex::default(),
            began: Instant::now(),
        })
    }

    /// Has all of the parties hold an amount, or none of them.
    pub fn hold(
        self: &Arc<Self>,
        parties: &[Party],
        held: Held,
        amount: u64,
    ) -> Result<Holding, Exceeded> {
        self.hold_of(parties.into(), held, amount)
    }

    fn hold_of(
        self: &Arc<Self>,
        parties: Arc<[Party]>,
        held: Held,
        amount: u64,
    ) -> Result<Holding, Exceeded> {
        let mut holding = Holding {
            shares: self.clone(),
            parties,
            held,
            amount: 0,
        };
        holding.grow(amount)?;
        Ok(holding)
    }

    /// Has all of the parties use an amount, or none of them. An amount greater than a whole share counts as one share.
    pub fn take(&self, parties: &[Party], used: Used, amount: u64) -> Result<(), Exceeded> {
        let now = self.now();
        let mut table = self.table(now);
        let usages = &mut table.parties;
        for party in parties {
            let (most, _) = self.limits.of(party).used_max(used);
            let wait = self.wait(usages, party, used, amount.min(most), now);
            if wait > 0 {
                return Err(Exceeded {
                    party: party.kind(),
                    what: match used {
                        Used::Requests => "requests",
                        Used::Turns => "turns",
                        Used::Frames => "frames",
                        Used::FrameBytes => "bytes of frames",
                    },
                    retry_after: Duration::from_nanos(wait),
                });
            }
        }
        self.charge(usages, parties, used, amount, now);
        Ok(())
    }

    /// Charges the parties for things that have come already. Returns the time for which nothing more is to be taken from them.
    pub fn spend(&self, parties: &[Party], used: Used, amount: u64) -> Duration {
        let now = self.now();
        let mut table = self.table(now);
        let usages = &mut table.parties;
        self.charge(usages, parties, used, amount, now);
        let waits = parties
            .iter()
            .map(|party| self.wait(usages, party, used, 0, now));
        Duration::from_nanos(waits.max().unwrap_or(0))
    }

    /// Nanoseconds until a party may use an amount.
    fn wait(
        &self,
        usages: &mut HashMap<Party, Usage>,
        party: &Party,
        used: Used,
        amount: u64,
        now: u64,
    ) -> u64 {
        let (most, period) = self.limits.of(party).used_max(used);
        let usage = usages.entry(party.clone()).or_default();
        let until = usage.used_until[used as usize].max(now);
        let until = until.saturating_add(cost(amount, most, period));
        until.saturating_sub(now.saturating_add(nanos(period)))
    }

    fn charge(
        &self,
        usages: &mut HashMap<Party, Usage>,
        parties: &[Party],
        used: Used,
        amount: u64,
        now: u64,
    ) {
        for party in parties {
            let (most, period) = self.limits.of(party).used_max(used);
            let usage = usages.entry(party.clone()).or_default();
            let until = &mut usage.used_until[used as usize];
            *until = (*until).max(now).saturating_add(cost(amount, most, period));
        }
    }

    fn table(&self, now: u64) -> MutexGuard<'_, Table> {
        let mut table = self.lock();
        let usages = &mut table.parties;
        if usages.len() >= PARTIES_MAX {
            usages.retain(|_, usage| !usage.is_blank(now));
        }
        if usages.len() >= PARTIES_MAX {
            // The uses of these parties are forgotten. Their held amounts are not, and are bounded by the server's own limits.
            usages.retain(|_, usage| !usage.holds_nothing());
        }
        table
    }

    fn now(&self) -> u64 {
        nanos(self.began.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Holding {
    /// Has the parties hold this much more, or changes nothing.
    pub fn grow(&mut self, amount: u64) -> Result<(), Exceeded> {
        self.grow_where(amount, |_| true)
    }

    /// Has the parties hold this amount in all, if it is more than now. The amount is known to be needed already. So neither the
    /// tenant's limit nor everybody's refuses it, which other parties may have filled.
    pub fn stretch_to(&mut self, amount: u64) -> Result<(), Exceeded> {
        let more = amount.saturating_sub(self.amount);
        self.grow_where(more, |party| !matches!(party, Party::Tenant(_)))
    }

    fn grow_where(
        &mut self,
        amount: u64,
        is_bound: impl Fn(&Party) -> bool,
    ) -> Result<(), Exceeded> {
        let shares = &self.shares;
        let mut table = shares.table(shares.now());
        let what = match self.held {
            Held::Connections => "connections",
            Held::Sessions => "sessions",
            Held::BodyBytes => "bytes of bodies",
            Held::TurnBytes => "memory for turns",
        };
        let exceeded = |party: &'static str| Exceeded {
            party,
            what,
            retry_after: HELD_RETRY,
        };
        for party in self.parties.iter().filter(|party| is_bound(party)) {
            let held = table
                .parties
                .get(party)
                .map_or(0, |usage| usage.held[self.held as usize]);
            let most = shares.limits.of(party).held_max(self.held);
            if held.saturating_add(amount) > most {
                return Err(exceeded(party.kind()));
            }
        }
        if self.held == Held::TurnBytes {
            let all = table.turn_bytes.saturating_add(amount);
            // A turn that has begun goes on.
            if self.amount == 0 && all > shares.limits.turn_bytes_max {
                return Err(exceeded(SERVER));
            }
            table.turn_bytes = all;
        }
        for party in self.parties.iter() {
            let usage = table.parties.entry(party.clone()).or_default();
            usage.held[self.held as usize] += amount;
        }
        self.amount += amount;
        Ok(())
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        let now = self.shares.now();
        let mut table = self.shares.lock();
        if self.held == Held::TurnBytes {
            table.turn_bytes = table.turn_bytes.saturating_sub(self.amount);
        }
        for party in self.parties.iter() {
            if let Some(usage) = table.parties.get_mut(party) {
                let held = &mut usage.held[self.held as usize];
                *held = held.saturating_sub(self.amount);
                if usage.is_blank(now) {
                    table.parties.remove(party);
                }
            }
        }
    }
}

/// The nanoseconds for which an amount counts.
fn cost(amount: u64, most: u64, period: Duration) -> u64 {
    let cost = period.as_nanos() * u128::from(amount) / u128::from(most.max(1));
    u64::try_from(cost).unwrap_or(u64::MAX)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares() -> Arc<Shares> {
        let user = Share {
            connections_max: 2,
            sessions_max: 1,
            body_bytes_max: 100,
            turn_bytes_max: 100,
            requests_per_minute_max: 3,
            turns_per_minute_max: 1,
            frames_per_second_max: 10,
            frame_bytes_per_second_max: 1_000,
        };
        let address = Share {
            connections_max: 3,
            ..user
        };
        Shares::new(ShareLimits {
            address,
            user,
            tenant: Share {
                requests_per_minute_max: 5,
                ..user
            },
            turn_bytes_max: 150,
        })
    }

    fn user(name: &str) -> Party {
        Party::User(TenantId::default(), ClientId::new(name))
    }

    #[test]
    fn what_is_held_counts_until_it_is_let_go_of() {
        let shares = shares();
        let hold = |parties: &[Party]| shares.hold(parties, Held::Connections, 1);
        let address = Party::address([192, 0, 2, 1].into());
        let (ada, bob) = (
            [address.clone(), user("ada")],
            [address.clone(), user("bob")],
        );
        let first = hold(&ada).unwrap();
        let _second = hold(&ada).unwrap();
        let refused = hold(&ada).unwrap_err();
        assert_eq!((refused.party, refused.what), ("user", "connections"));
        let _third = hold(&bob).unwrap();
        assert_eq!(hold(&bob).unwrap_err().party, "address");
        drop(first);
        let again = hold(&bob).unwrap();
        drop(again);
        hold(&ada).unwrap();
    }

    #[test]
    fn a_holding_grows_up_to_the_share_and_not_beyond() {
        let shares = shares();
        let mut body = shares.hold(&[user("ada")], Held::BodyBytes, 60).unwrap();
        assert!(body.grow(50).is_err());
        body.grow(40).unwrap();
        assert!(shares.hold(&[user("ada")], Held::BodyBytes, 1).is_err());
        drop(body);
        assert!(shares.lock().parties.is_empty());
    }

    #[test]
    fn turns_hold_memory_up_to_a_share_and_to_what_there_is_and_those_that_run_go_on() {
        let shares = shares();
        let hold = |name: &str, bytes: u64| shares.hold(&[user(name)], Held::TurnBytes, bytes);
        let mut first = hold("ada", 60).unwrap();
        let refused = hold("ada", 50).unwrap_err();
        assert_eq!(
            (refused.party, refused.what, refused.is_of_server()),
            ("user", "memory for turns", false)
        );
        let second = hold("bob", 60).unwrap();
        let refused = hold("carl", 40).unwrap_err();
        assert!(refused.is_of_server(), "{refused}");
        // A running turn may exceed the limit of all, but not its own share.
        first.stretch_to(50).unwrap();
        first.stretch_to(100).unwrap();
        assert_eq!(shares.lock().turn_bytes, 160);
        assert_eq!(first.stretch_to(101).unwrap_err().party, "user");
        drop((first, second));
        assert_eq!(shares.lock().turn_bytes, 0);
        assert!(shares.lock().parties.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_used_comes_back_with_time_and_a_refusal_says_when() {
        let shares = shares();
        let (ada, bob) = ([user("ada")], [user("bob")]);
        let ask = |parties: &[Party]| shares.take(parties, Used::Requests, 1);
        for _ in 0..3 {
            ask(&ada).unwrap();
        }
        let refused = ask(&ada).unwrap_err();
        assert_eq!(refused.retry_after, Duration::from_secs(20));
        ask(&bob).unwrap();
        tokio::time::advance(refused.retry_after).await;
        ask(&ada).unwrap();
        assert!(ask(&ada).is_err());
        // All or none: an amount that one party may not have is charged to neither.
        let both = [user("carl"), user("ada")];
        assert!(ask(&both).is_err());
        for _ in 0..3 {
            ask(&[user("carl")]).unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_come_already_is_waited_for_afterwards() {
        let shares = shares();
        let ada = [user("ada")];
        assert_eq!(shares.spend(&ada, Used::Frames, 10), Duration::ZERO);
        let wait = shares.spend(&ada, Used::Frames, 5);
        assert_eq!(wait, Duration::from_millis(500));
        tokio::time::advance(wait).await;
        assert_eq!(shares.spend(&ada, Used::Frames, 0), Duration::ZERO);
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_address() {
        let party = |text: &str| Party::address(text.parse().unwrap());
        assert_eq!(party("2001:db8::1"), party("2001:db8::ffff:1"));
        assert_ne!(party("2001:db8::1"), party("2001:db8:0:1::1"));
        assert_eq!(party("::ffff:192.0.2.1"), party("192.0.2.1"));
    }

    #[test]
    fn no_flood_of_parties_makes_the_table_grow() {
        let shares = shares();
        let held = shares.hold(&[user("ada")], Held::Sessions, 1).unwrap();
        for number in 0..PARTIES_MAX + 10 {
            shares.spend(&[user(&number.to_string())], Used::Requests, 1);
        }
        assert!(shares.lock().parties.len() <= PARTIES_MAX);
        assert!(shares.hold(&[user("ada")], Held::Sessions, 1).is_err());
        drop(held);
    }
}
