//! The choice of a tool's version for a user: the rules of a configuration, and their result. Knows no registry, no clock and no
//! randomness: a user keeps the same version until the rules change.

use crate::condition::Facts;
use crate::id::ToolId;
use crate::rights::Role;
use crate::version::Version;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// The rules of each tool that has any.
pub type Rollouts = BTreeMap<ToolId, Rollout>;

/// The chosen version of each tool, where it differs from the one in the tool's own folder.
pub type Choice = BTreeMap<ToolId, Version>;

/// The whole of a percentage.
const WHOLE: u64 = 100;

/// The rules for the versions of one tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rollout {
    /// The version for all other users; `None` is the version in the tool's own folder.
    pub version: Option<Version>,
    pub versions: BTreeMap<Version, Recipients>,
}

/// The users who get one version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recipients {
    /// Users by the id that their sessions have.
    pub users: BTreeSet<String>,
    pub tenants: BTreeSet<String>,
    /// Users with one of these proven roles.
    pub roles: BTreeSet<Role>,
    /// The share of all other users, in percent.
    pub percent: u8,
}

/// A problem in the rules of one tool, and the version that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutFlaw {
    pub version: Version,
    /// The key to blame in the version's rules.
    pub key: &'static str,
    /// The problem with the key's value, worded to follow "which", and the cure.
    pub cause: &'static str,
}

const TWICE: &str = "names one whom another version of the tool names, too; name each once";
const BEYOND_THE_WHOLE: &str = "makes more than 100 together with the percentages of the tool's other versions; lower one of them";
const NOT_THE_WHOLE: &str = "does not make 100 together with the percentages of the tool's other versions, although the version for everybody else has a \
     percentage, too; let them add up to 100, or leave that one out";

impl Rollout {
    /// The first problem in the rules. `current` is the version in the tool's own folder, if known.
    pub fn flaw(&self, current: Option<&Version>) -> Option<RolloutFlaw> {
        let (mut users, mut tenants, mut roles) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut percent = 0;
        let flaw = |version: &Version, key, cause| {
            Some(RolloutFlaw {
                version: version.clone(),
                key,
                cause,
            })
        };
        for (version, recipients) in &self.versions {
            if !recipients.users.iter().all(|user| users.insert(user)) {
                return flaw(version, "users", TWICE);
            }
            if !recipients
                .tenants
                .iter()
                .all(|tenant| tenants.insert(tenant))
            {
                return flaw(version, "tenants", TWICE);
            }
            if !recipients.roles.iter().all(|role| roles.insert(role)) {
                return flaw(version, "roles", TWICE);
            }
            percent += u64::from(recipients.percent);
            if percent > WHOLE {
                return flaw(version, "percent", BEYOND_THE_WHOLE);
            }
        }
        let rest = self.version.as_ref().or(current)?;
        let of_rest = self.versions.get(rest)?;
        (of_rest.percent > 0 && percent < WHOLE)
            .then(|| flaw(rest, "percent", NOT_THE_WHOLE))
            .flatten()
    }

    /// Every version that the rules name.
    pub fn named(&self) -> impl Iterator<Item = &Version> {
        self.version.iter().chain(self.versions.keys())
    }

    /// The version of a tool for a user: by the user's id, then by a role, by the tenant, by the percentages, and else the version for
    /// all others. If several match, the highest. `None` is the version in the tool's own folder.
    pub fn choose(&self, tool: &ToolId, facts: &Facts<'_>) -> Option<&Version> {
        let find = |fits: &dyn Fn(&Recipients) -> bool| {
            let mut highest_first = self.versions.iter().rev();
            highest_first.find_map(|(version, recipients)| fits(recipients).then_some(version))
        };
        find(&|recipients| recipients.users.contains(facts.user_id))
            .or_else(|| find(&|recipients| facts.rights.have_one_of(&recipients.roles)))
            .or_else(|| find(&|recipients| recipients.tenants.contains(facts.tenant)))
            .or_else(|| self.by_percent(tool, facts))
            .or(self.version.as_ref())
    }

    /// The highest version takes the first places, so that its users keep it while its share grows.
    fn by_percent(&self, tool: &ToolId, facts: &Facts<'_>) -> Option<&Version> {
        let mut shares = self.versions.iter().rev();
        if !shares.clone().any(|(_, recipients)| recipients.percent > 0) {
            return None;
        }
        let place = place_of(tool, facts);
        let mut end = 0;
        shares.find_map(|(version, recipients)| {
            end += u64::from(recipients.percent);
            (place < end).then_some(version)
        })
    }
}

/// A user's place among 100, separate for each tool. A hash makes it the same everywhere and at any time.
fn place_of(tool: &ToolId, facts: &Facts<'_>) -> u64 {
    let mut hasher = Sha256::new();
    for part in [facts.tenant, facts.user_id, tool.as_str()] {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    let hash = hasher.finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&hash[..8]);
    u64::from_be_bytes(first) % WHOLE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::Given;
    use crate::kind::Mode;
    use crate::rights::Rights;

    fn version(text: &str) -> Version {
        Version::parse(text).unwrap()
    }

    fn tool() -> ToolId {
        ToolId::parse("book_table").unwrap()
    }

    fn named(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn roles(names: &[&str]) -> BTreeSet<Role> {
        names.iter().filter_map(|name| Role::parse(name)).collect()
    }

    fn percent(percent: u8) -> Recipients {
        Recipients {
            percent,
            ..Recipients::default()
        }
    }

    fn rollout(rest: Option<&str>, versions: &[(&str, Recipients)]) -> Rollout {
        let versions = versions.iter();
        Rollout {
            version: rest.map(version),
            versions: versions
                .map(|(text, recipients)| (version(text), recipients.clone()))
                .collect(),
        }
    }

    fn chosen(rollout: &Rollout, (tenant, user_id): (&str, &str), rights: &Rights) -> String {
        let facts = Facts {
            rights,
            user_id,
            tenant,
            mode: Mode::Text,
            unix_ms: 0,
            given: &Given::default(),
            arguments: None,
        };
        let chosen = rollout.choose(&tool(), &facts);
        chosen.map_or("current", Version::as_str).to_owned()
    }

    #[test]
    fn the_most_personal_rule_counts() {
        let first = Recipients {
            users: named(&["anna"]),
            tenants: named(&["acme"]),
            roles: roles(&["staff"]),
            percent: 0,
        };
        let second = Recipients {
            users: named(&["bert"]),
            tenants: named(&["zoo"]),
            roles: roles(&["beta"]),
            percent: 0,
        };
        let rules = rollout(Some("0.9.0"), &[("1.1.0", first), ("1.2.0", second)]);
        let both = Rights::signed_in(roles(&["staff", "beta"]));
        let staff = Rights::signed_in(roles(&["staff"]));
        for (tenant, user, rights, expected) in [
            ("t", "anna", &both, "1.1.0"),
            ("zoo", "anna", &both, "1.1.0"),
            ("acme", "bert", &staff, "1.2.0"),
            ("t", "x", &both, "1.2.0"),
            ("zoo", "x", &staff, "1.1.0"),
            ("zoo", "x", &Rights::Anonymous, "1.2.0"),
            ("acme", "x", &Rights::Anonymous, "1.1.0"),
            ("t", "x", &Rights::Anonymous, "0.9.0"),
            ("t", "Anna", &Rights::Anonymous, "0.9.0"),
        ] {
            let found = chosen(&rules, (tenant, user), rights);
            assert_eq!(found, expected, "{tenant} {user} {rights:?}");
        }
        let nobody = rollout(None, &[]);
        assert_eq!(chosen(&nobody, ("t", "x"), &both), "current");
    }

    #[test]
    fn a_percentage_is_that_of_the_users_and_grows_without_taking_it_from_anybody() {
        let users: Vec<String> = (0..10_000).map(|number| format!("user-{number}")).collect();
        let of = |percentage| -> BTreeSet<&String> {
            let rules = rollout(None, &[("2.0.0", percent(percentage))]);
            let has = |user: &&String| chosen(&rules, ("t", user), &Rights::Anonymous) == "2.0.0";
            users.iter().filter(has).collect()
        };
        let (none, tenth, third, all) = (of(0), of(10), of(33), of(100));
        assert!(none.is_empty() && all.len() == users.len());
        assert!((900..1_100).contains(&tenth.len()), "{}", tenth.len());
        assert!((3_150..3_450).contains(&third.len()), "{}", third.len());
        assert!(tenth.is_subset(&third));
        // The same id at another tenant is another user, and another tool divides users differently.
        let rules = rollout(None, &[("2.0.0", percent(10))]);
        let elsewhere =
            |user: &&&String| chosen(&rules, ("u", user), &Rights::Anonymous) == "2.0.0";
        let both = tenth.iter().filter(elsewhere).count();
        assert!((50..160).contains(&both), "{both}");
    }

    #[test]
    fn several_versions_divide_the_users_among_them() {
        let rules = rollout(
            Some("1.0.0"),
            &[("1.1.0", percent(20)), ("1.2.0", percent(30))],
        );
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for number in 0..10_000 {
            let user = format!("user-{number}");
            *counts
                .entry(chosen(&rules, ("t", &user), &Rights::Anonymous))
                .or_default() += 1;
        }
        for (version, expected) in [("1.0.0", 5_000), ("1.1.0", 2_000), ("1.2.0", 3_000)] {
            let found = counts[version];
            assert!(found.abs_diff(expected) < 200, "{version} {found}");
        }
    }

    /// The places of users are not stored: every version of the program has to compute the same ones.
    #[test]
    fn places_stay_what_they_are() {
        let facts = |user_id| Facts {
            rights: &Rights::Anonymous,
            user_id,
            tenant: "default",
            mode: Mode::Text,
            unix_ms: 0,
            given: GIVEN.get_or_init(Given::default),
            arguments: None,
        };
        let places = ["anna", "bert", ""].map(|user| place_of(&tool(), &facts(user)));
        assert_eq!(places, PLACES);
    }

    static GIVEN: std::sync::OnceLock<Given> = std::sync::OnceLock::new();
    const PLACES: [u64; 3] = [34, 37, 76];

    #[test]
    fn rules_that_contradict_each_other_are_found() {
        let with_users = |users: &[&str]| Recipients {
            users: named(users),
            ..Recipients::default()
        };
        let with_roles = |names: &[&str]| Recipients {
            roles: roles(names),
            ..Recipients::default()
        };
        let with_tenants = |tenants: &[&str]| Recipients {
            tenants: named(tenants),
            ..Recipients::default()
        };
        let current = Some("1.0.0");
        for (rules, expected) in [
            (rollout(None, &[]), None),
            (rollout(None, &[("2.0.0", percent(100))]), None),
            (
                rollout(None, &[("2.0.0", percent(60)), ("3.0.0", percent(40))]),
                None,
            ),
            (
                rollout(None, &[("2.0.0", percent(60)), ("3.0.0", percent(41))]),
                Some(("3.0.0", "percent", BEYOND_THE_WHOLE)),
            ),
            // The message about the remaining users has to be true.
            (
                rollout(None, &[("1.0.0", percent(80)), ("2.0.0", percent(10))]),
                Some(("1.0.0", "percent", NOT_THE_WHOLE)),
            ),
            (
                rollout(
                    Some("2.0.0"),
                    &[("2.0.0", percent(80)), ("3.0.0", percent(10))],
                ),
                Some(("2.0.0", "percent", NOT_THE_WHOLE)),
            ),
            (
                rollout(None, &[("1.0.0", percent(90)), ("2.0.0", percent(10))]),
                None,
            ),
            (
                rollout(
                    Some("2.0.0"),
                    &[("1.0.0", percent(90)), ("2.0.0", percent(0))],
                ),
                None,
            ),
            (
                rollout(
                    None,
                    &[
                        ("2.0.0", with_users(&["a", "b"])),
                        ("3.0.0", with_users(&["b"])),
                    ],
                ),
                Some(("3.0.0", "users", TWICE)),
            ),
            (
                rollout(
                    None,
                    &[("2.0.0", with_roles(&["a"])), ("3.0.0", with_roles(&["a"]))],
                ),
                Some(("3.0.0", "roles", TWICE)),
            ),
            (
                rollout(
                    None,
                    &[
                        ("2.0.0", with_tenants(&["a"])),
                        ("3.0.0", with_tenants(&["a"])),
                    ],
                ),
                Some(("3.0.0", "tenants", TWICE)),
            ),
        ] {
            let flaw = rules.flaw(current.and_then(Version::parse).as_ref());
            let found = flaw
                .as_ref()
                .map(|flaw| (flaw.version.as_str(), flaw.key, flaw.cause));
            assert_eq!(found, expected, "{rules:?}");
        }
    }
}
