//! Tokens of an OpenID provider: whether one counts, and which user it names. Knows no route.

mod fetch;
mod issuer_keys;
mod ring_provider;
mod sign_in;

pub(crate) use sign_in::{Returned, SIGN_IN_COOKIE, no_way_cookie};

use super::is_user_name;
use crate::clock::{self, UserZone};
use crate::failure::Failure;
use issuer_keys::{IssuerKeys, KeyProblem};
use jsonwebtoken::{Algorithm, Validation, decode, decode_header};
use serde_json::{Map, Value};
use sign_in::SignIn;
use std::sync::Arc;
use windlass_config::{self as config, Name};
use windlass_contract::id::TenantId;
use windlass_contract::rights::Role;
use windlass_runtime::caller::{Proven, ProvenName, Validity};

/// The accepted algorithms. All have a public key, so checking a token does not enable making one: with an algorithm of a shared
/// secret, the issuer's public key would be the secret.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// Seconds by which the clocks of the issuer and of this machine may differ.
const LEEWAY_SECONDS: u64 = 60;
/// Roles of one user.
const ROLES_MAX: usize = 256;
const TENANT_CHARACTERS_MAX: usize = 64;

/// Why a token does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenProblem {
    /// The cause is for the operator: a caller learns no more than that it does not.
    Invalid(&'static str),
    KeysUnavailable,
}

/// The trusted settings of one provider, and its keys.
pub(crate) struct Oidc {
    issuer: String,
    audience: String,
    claims: ClaimNames,
    keys: IssuerKeys,
    sign_in: Option<SignIn>,
}

/// The names of the claims.
struct ClaimNames {
    user: String,
    tenant: Option<String>,
    roles: String,
    zone: String,
}

impl Oidc {
    pub(super) fn new(config: &config::Oidc) -> Result<Self, Failure> {
        ring_provider::install();
        let named = |name: &Option<Name>, usual: &str| {
            let name = name.as_ref().map_or(usual, Name::as_str);
            name.to_owned()
        };
        if !config.issuer.is_encrypted() {
            let issuer = config.issuer.as_str();
            tracing::warn!(
                issuer,
                "the keys of this issuer travel unencrypted: anybody who can change them can sign in as anybody"
            );
        }
        Ok(Self {
            issuer: config.issuer.as_str().to_owned(),
            audience: config.audience.as_str().to_owned(),
            claims: ClaimNames {
                user: named(&config.user_claim, "sub"),
                tenant: config
                    .tenant_claim
                    .as_ref()
                    .map(|name| name.as_str().to_owned()),
                roles: named(&config.roles_claim, "roles"),
                zone: named(&config.zone_claim, "zoneinfo"),
            },
            keys: IssuerKeys::new(config),
            sign_in: SignIn::of(config).map_err(Failure::of)?,
        })
    }

    /// The issuer's name, as its tokens have it.
    pub(crate) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The bearer that a token for this server, or for a resource of its own, names.
    pub(crate) async fn verify(
        &self,
        token: &str,
        resource: Option<&str>,
    ) -> Result<Proven, TokenProblem> {
        let audience = resource.unwrap_or(&self.audience);
        let claims = self.claims_of(token, audience).await?;
        self.claims.proven(&claims)
    }

    /// The claims of a token that the issuer made for an audience, and that is in its time.
    async fn claims_of(
        &self,
        token: &str,
        audience: &str,
    ) -> Result<Map<String, Value>, TokenProblem> {
        use TokenProblem::Invalid;
        // An algorithm that is not in the library's list, such as `none`, has no header.
        let header =
            decode_header(token).map_err(|_| Invalid("it is no token with a signature"))?;
        if !ALGORITHMS.contains(&header.alg) {
            return Err(Invalid("its algorithm is none that is believed"));
        }
        if demands_extensions(token) {
            return Err(Invalid("it demands extensions that nobody here knows"));
        }
        let key = self.keys.find(header.kid.as_deref(), header.alg).await;
        let key = key.map_err(|problem| match problem {
            KeyProblem::Unknown => Invalid("its key is none of the issuer's"),
            KeyProblem::OtherAlgorithm => Invalid("its algorithm is not that of its key"),
            KeyProblem::Unavailable => TokenProblem::KeysUnavailable,
        })?;
        let mut validation = Validation::new(header.alg);
        // The library reads no times while numbers are kept as they were written, so that they are judged here.
        validation.validate_exp = false;
        validation.set_audience(&[audience]);
        validation.set_issuer(&[&self.issuer]);
        validation.set_required_spec_claims(&["iss", "aud"]);
        let decoded = decode::<Map<String, Value>>(token, &key, &validation);
        let decoded = decoded.map_err(|error| Invalid(cause_of(error.kind())))?;
        in_time(&decoded.claims, clock::now_unix_ms() / 1_000)?;
        Ok(decoded.claims)
    }
}

/// Whether a token's header names extensions under `crit`. A token with an unknown extension has to be refused (RFC 7515, section
/// 4.1.11), and none is known here.
fn demands_extensions(token: &str) -> bool {
    let header = token.split('.').next().unwrap_or_default();
    let header = base64_simd::URL_SAFE_NO_PAD.decode_to_vec(header).ok();
    let header =
        header.and_then(|header| serde_json::from_slice::<Map<String, Value>>(&header).ok());
    header.is_none_or(|header| header.contains_key("crit"))
}

fn cause_of(kind: &jsonwebtoken::errors::ErrorKind) -> &'static str {
    use jsonwebtoken::errors::ErrorKind;
    match kind {
        ErrorKind::InvalidSignature => "its signature is not the issuer's",
        ErrorKind::InvalidIssuer => "it is of another issuer",
        ErrorKind::InvalidAudience => "it is for another audience",
        ErrorKind::MissingRequiredClaim(_) => NO_TIME,
        _ => "it cannot be read",
    }
}

const NO_TIME: &str = "it says no audience, issuer or time";

/// Whether a token is in its time, which it has to say.
fn in_time(claims: &Map<String, Value>, now_seconds: u64) -> Result<(), TokenProblem> {
    // Seconds since the Unix epoch, which some issuers write with a fraction.
    let seconds = |name: &str| claims.get(name).map(Value::as_f64);
    let now = now_seconds as f64;
    let leeway = LEEWAY_SECONDS as f64;
    match (seconds("exp"), seconds("nbf")) {
        (Some(Some(until)), _) if until.round() < now - leeway => {
            Err(TokenProblem::Invalid("it has expired"))
        }
        (Some(Some(_)), Some(Some(from))) if from.round() > now + leeway => {
            Err(TokenProblem::Invalid("it is not valid yet"))
        }
        (Some(Some(_)), None | Some(Some(_))) => Ok(()),
        (None | Some(None), _) | (_, Some(None)) => Err(TokenProblem::Invalid(NO_TIME)),
    }
}

impl ClaimNames {
    fn proven(&self, claims: &Map<String, Value>) -> Result<Proven, TokenProblem> {
        let text = |name: &str| claim(claims, name).and_then(Value::as_str);
        let user = text(&self.user).filter(|user| is_user_name(user));
        let user = user.ok_or(TokenProblem::Invalid("it names no user"))?;
        let tenant = match &self.tenant {
            None => TenantId::default(),
            Some(name) => {
                let tenant = text(name).and_then(tenant_of);
                tenant.ok_or(TokenProblem::Invalid("it names no tenant"))?
            }
        };
        Ok(Proven {
            tenant,
            name: ProvenName::User(user.to_owned()),
            roles: Arc::new(
                roles_of(claim(claims, &self.roles))
                    .into_iter()
                    .take(ROLES_MAX)
                    .collect(),
            ),
            // An unknown zone is ignored; the user still signs in.
            zone: text(&self.zone)
                .and_then(|name| UserZone::parse(name).ok().flatten())
                .map(|zone| zone.name().into()),
            validity: Validity::default(),
        })
    }
}

/// A claim by its name, or by the dots that lead into objects.
fn claim<'c>(claims: &'c Map<String, Value>, name: &str) -> Option<&'c Value> {
    if let Some(value) = claims.get(name) {
        return Some(value);
    }
    let mut segments = name.split('.');
    let first = claims.get(segments.next()?)?;
    segments.try_fold(first, |value, segment| value.get(segment))
}

/// A list of roles, or one text with spaces between them. Skips words that cannot be a role.
fn roles_of(claim: Option<&Value>) -> Vec<Role> {
    match claim {
        Some(Value::Array(roles)) => roles
            .iter()
            .filter_map(|role| Role::parse(role.as_str()?))
            .collect(),
        Some(Value::String(roles)) => roles.split(' ').filter_map(Role::parse).collect(),
        _ => Vec::new(),
    }
}

/// A tenant's name: it stands in ids before a `:`.
pub(crate) fn tenant_of(name: &str) -> Option<TenantId> {
    let is_good = (1..=TENANT_CHARACTERS_MAX).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    is_good.then(|| TenantId::new(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_token_counts_in_its_time_alone() {
        for (claims, expected) in [
            (json!({"exp": 1_000}), "good"),
            (json!({"exp": 940}), "good"),
            (json!({"exp": 939}), "it has expired"),
            (json!({"exp": 1_000.5, "nbf": 1_060}), "good"),
            (json!({"exp": 1_000, "nbf": 1_061}), "it is not valid yet"),
            (json!({}), NO_TIME),
            (json!({"exp": null}), NO_TIME),
            (json!({"exp": "1000"}), NO_TIME),
            (json!({"exp": 1_000, "nbf": "1"}), NO_TIME),
        ] {
            let told = match in_time(claims.as_object().unwrap(), 1_000) {
                Ok(()) => "good",
                Err(TokenProblem::Invalid(why)) => why,
                Err(TokenProblem::KeysUnavailable) => "no keys",
            };
            assert_eq!(told, expected, "{claims}");
        }
    }

    #[test]
    fn a_token_that_demands_an_extension_is_not_believed() {
        for (header, expected) in [
            (r#"{"alg":"RS256","typ":"JWT"}"#, false),
            (r#"{"alg":"RS256","crit":["b64"],"b64":false}"#, true),
            (r#"{"alg":"RS256","crit":[]}"#, true),
            ("no JSON", true),
        ] {
            let header = base64_simd::URL_SAFE_NO_PAD.encode_to_string(header);
            let token = format!("{header}.e30.c2ln");
            assert_eq!(demands_extensions(&token), expected, "{token}");
        }
    }

    #[test]
    fn claims_say_who_somebody_is() {
        let names = |tenant: Option<&str>, roles: &str| ClaimNames {
            user: "sub".to_owned(),
            tenant: tenant.map(str::to_owned),
            roles: roles.to_owned(),
            zone: "zoneinfo".to_owned(),
        };
        let told = |names: ClaimNames, claims: Value| {
            let proven = names.proven(claims.as_object().unwrap()).ok()?;
            let roles: Vec<String> = proven.roles.iter().map(ToString::to_string).collect();
            let ProvenName::User(user) = proven.name else {
                return None;
            };
            let zone = proven.zone.map(|zone| format!(" in {zone}"));
            Some(format!(
                "{user} of {} as {}{}",
                proven.tenant,
                roles.join("+"),
                zone.unwrap_or_default()
            ))
        };
        for (names, claims, expected) in [
            (
                names(None, "roles"),
                json!({"sub": "ada"}),
                Some("ada of default as "),
            ),
            (
                names(None, "roles"),
                json!({"sub": "ada", "roles": ["staff", "two words", 5]}),
                Some("ada of default as staff"),
            ),
            (
                names(None, "realm_access.roles"),
                json!({"sub": "ada", "realm_access": {"roles": ["b", "a"]}}),
                Some("ada of default as a+b"),
            ),
            (
                names(None, "https://shop.example/roles"),
                json!({"sub": "ada", "https://shop.example/roles": "read write"}),
                Some("ada of default as read+write"),
            ),
            (
                names(Some("org"), "roles"),
                json!({"sub": "ada", "org": "acme"}),
                Some("ada of acme as "),
            ),
            (names(Some("org"), "roles"), json!({"sub": "ada"}), None),
            (
                names(Some("org"), "roles"),
                json!({"sub": "ada", "org": "a:b"}),
                None,
            ),
            (
                names(None, "roles"),
                json!({"sub": "ada", "zoneinfo": "Asia/Tokyo"}),
                Some("ada of default as  in Asia/Tokyo"),
            ),
            (
                names(None, "roles"),
                json!({"sub": "ada", "zoneinfo": "../../etc/passwd"}),
                Some("ada of default as "),
            ),
            (
                names(None, "roles"),
                json!({"sub": "ada", "zoneinfo": 9}),
                Some("ada of default as "),
            ),
            (names(None, "roles"), json!({"sub": ""}), None),
            (names(None, "roles"), json!({"sub": 7}), None),
            (names(None, "roles"), json!({"sub": "a\u{0}b"}), None),
        ] {
            let what = claims.to_string();
            assert_eq!(told(names, claims).as_deref(), expected, "{what}");
        }
    }
}
