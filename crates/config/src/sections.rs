//! The sections: every key with its default, its meaning and the type that limits it, written once. The tables of
//! `docs/configuration.md` are made from here. Opens nothing that a key names.

use super::key::section;
use super::values::{
    AddressRange, AllowedHost, AllowedOrigin, Argument, CalendarName, ConditionValue,
    ConnectionName, FetchPlace, FilePath, Header, HeaderLabel, IssuerAddress, ListenAddress,
    McpName, McpUrl, ModelId, Name, NamespaceName, ProfileRow, ProviderUrl, ProxyAddress, RoleName,
    Secret, SecretName, Temperature, TokenScope, ValueName, VariableName, VersionName, WebAddress,
    Whole, Words, WorkingTimes, ZoneName, choices,
};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use windlass_calendar::PRIMARY;
use windlass_compile::handler_file::{BoundSecret, Permissions};
use windlass_contract::condition::Values;
use windlass_contract::id::ToolId;
use windlass_contract::kind::{Mode, RateLimit};
use windlass_contract::rights::Role;
use windlass_contract::rollout::{Recipients, Rollout, Rollouts};
use windlass_contract::sensitive::Sensitive;
use windlass_contract::tightening::Tightening;
use windlass_contract::version::Version;
use windlass_provider::gemini_live::{Sensitivity, ThinkingLevel};
use windlass_provider::profile::{GEMINI_LIVE_MODEL, ProfileChange, TextTransport};
use windlass_provider::provider_tools::ProviderTool;
use windlass_runtime::executor::ThreadLimits;
use windlass_runtime::fetch::{FetchLimits, Places};
use windlass_runtime::mcp::{McpAddress, McpLimits, McpPlace, McpProgram, McpSettings};
use windlass_runtime::shares::{Share, ShareLimits};
use windlass_runtime::worker::WorkerLimits;
use windlass_session::limits::Limits;
use windlass_session::model::{CallSupport, Thinking};
use windlass_store::{ConversationShares, StoreLimits, TaskShares};

/// The default of a list.
const NO_ITEMS: [&str; 0] = [];

section! {
    /// Everything that can be configured.
    pub struct Config {
        /// HTTP.
        server: Server,
        /// Who may have how much.
        shares: Shares,
        /// Who may come in.
        access: Access,
        /// Whom connections to others believe.
        tls: Tls,
        /// Where things are.
        folders: Folders,
        /// The knowledge base.
        knowledge: Knowledge,
        /// The provider of voice sessions.
        provider: Provider,
        /// Voice sessions.
        voice: Voice,
        /// Text conversations.
        text: Text,
        /// By model id.
        models: BTreeMap<ModelId, ModelChange>,
        /// By tool.
        tools: BTreeMap<ToolId, ToolChange>,
        /// The values that conditions of tools read as `config.NAME`.
        condition_values: BTreeMap<ValueName, ConditionValue>,
        /// The threads of handlers.
        threads: Threads,
        /// The rights of tools' files.
        handlers: Handlers,
        /// Secrets of handlers, by name.
        secrets: BTreeMap<SecretName, HandlerSecret>,
        /// MCP servers whose tools are imported, by name.
        mcp: BTreeMap<McpName, McpServer>,
        /// Services that tools ask on behalf of each user, by name.
        connections: BTreeMap<ConnectionName, Connection>,
        /// This server as one of MCP.
        mcp_server: McpEndpoint,
        /// Handlers in JavaScript.
        scripts: Scripts,
        /// The calendar.
        calendar: Calendar,
        /// Conversations that are handed over to people.
        escalation: Escalation,
        /// Work in the background.
        tasks: Tasks,
        /// Pictures.
        images: Images,
        /// The web.
        search: Search,
        /// The audit.
        audit: Audit,
        /// The store.
        store: Store,
        /// Journals.
        journal: Journal,
        /// The log.
        log: Log,
    }
    beside {
        /// Who answers by text, after `auto` has been decided.
        text_provider: TextProvider,
        /// Why each mode has its model.
        reasons: Reasons,
        /// The settings that make tools stricter, by tool.
        tightenings: BTreeMap<ToolId, Tightening>,
        /// Which users get which version of a tool, for tools whose configuration says so.
        rollouts: Rollouts,
        /// The values of `condition_values`, as conditions read them.
        condition_facts: Arc<Values>,
    }
}

section! {
    /// The address at which the server listens, and its limits.
    pub struct Server {
        /// Address and port. Port 0 takes a free one; the line that `serve` prints names it. `localhost:8080` works
        /// too. Use `0.0.0.0:8080` or `[::]:8080` to be reached from other machines.
        listen: ListenAddress = "127.0.0.1:8080",
        /// The port, in place of that of `server.listen` where the same source or a later one sets it. Also taken from the variable
        /// `PORT`, which comes after our own variables. `--port` sets it, too.
        port: Option<Whole<0, 65_535>>,
        /// Names besides `localhost`, the loopback addresses and the address of `server.listen` under which the server
        /// answers, such as `["agent.example"]`; with a port, only with that one. Every other `Host` is refused.
        allowed_hosts: BTreeSet<AllowedHost> = NO_ITEMS,
        /// Web origins besides the server's own whose pages may ask it for anything, such as `["https://example.org"]`.
        allowed_origins: BTreeSet<AllowedOrigin> = NO_ITEMS,
        /// Name of the header in which a proxy says who has signed in, such as `X-Forwarded-User`. See
        /// [operations.md](operations.md#who-a-user-is).
        user_header: Option<Header>,
        /// Addresses of the proxies that are believed in that header, as in `["10.0.0.5", "10.1.0.0/16"]`. From any other
        /// address the header counts for nothing.
        proxies: BTreeSet<AddressRange> = ["127.0.0.1", "::1"],
        /// Voice sessions at a time; one counts until nothing of it runs any more, also while its client is away. One
        /// more is refused with `overloaded`; a client that comes back to its session is not.
        sessions_max: Whole<1, 1_000_000> = 1_000,
        /// HTTP connections at a time, and among them those for voice whose session has not begun; voice sessions are
        /// not. One more is told to come back.
        connections_max: Whole<1, 1_000_000> = 4_096,
        /// Addresses of the proxies before this server. What they say in `X-Forwarded-For` is believed, and their
        /// connections are not held to the share of one address.
        trusted_proxies: BTreeSet<ProxyAddress> = NO_ITEMS,
        /// Bytes of the head of a request; it may have 100 headers.
        head_bytes_max: Whole<8_192, 1_048_576> = 16_384,
        /// Seconds for the head of a request, and for the pause before it: a connection that says nothing is ended.
        head_seconds: Whole<1, 3_600> = 15,
        /// Seconds for the body of a request.
        body_seconds: Whole<1, 3_600> = 60,
        /// Seconds between two pieces of a body.
        body_idle_seconds: Whole<1, 3_600> = 10,
        /// Seconds in which a client has to take some of the answer that waits for it.
        write_seconds: Whole<1, 3_600> = 30,
        /// Seconds from a request to the end of its answer; longer than `text.turn_seconds`.
        request_seconds: Whole<1, 86_400> = 900,
        /// Seconds from the upgrade of a voice connection to its `start`.
        start_seconds: Whole<1, 3_600> = 10,
        /// Seconds that sessions have to end after SIGTERM or SIGINT.
        shutdown_seconds: Whole<0, 3_600> = 30,
        /// Threads that serve sessions. Not set: one for each core.
        worker_threads: Option<Whole<1, 1_024>>,
    }
}

section! {
    /// The certificate authorities that are believed for services that the server asks. See [operations.md](operations.md#the-way-out).
    pub struct Tls {
        /// A PEM file with certificates of authorities that are believed besides the system's, such as your company's.
        ca_file: Option<FilePath>,
    }
}

section! {
    /// The shares of the server's strength. A caller that has used up a share is told when to come back.
    pub struct Shares {
        /// The share of one address. Addresses of IPv6 that begin with the same 64 bits count as one.
        address: AddressShare,
        /// The share of one user, or of one client that has not signed in.
        user: UserShare,
        /// The share of all users of one tenant.
        tenant: TenantShare,
    }
}

/// Declares the shares of one kind of party, with their defaults.
macro_rules! share {
    ($(#[doc = $about:literal])+ $name:ident = $connections:literal, $sessions:literal, $conversations:literal, $body_bytes:literal, $turn_bytes:literal,
     $requests:literal, $turns:literal, $frames:literal, $frame_bytes:literal) => {
        section! {
            $(#[doc = $about])+
            pub struct $name {
                /// Connections at a time: those of the address, or those on which the user or the tenant is served.
                connections_max: Whole<1, 1_000_000> = $connections,
                /// Voice sessions at a time.
                sessions_max: Whole<1, 1_000_000> = $sessions,
                /// Conversations that are kept. Beyond them the party's own go in which nothing was said; then it begins no
                /// further one until older ones have been forgotten.
                conversations_max: StoreBound = $conversations,
                /// Bytes of the bodies of requests that are in memory at a time.
                body_bytes_max: Whole<1_024, 1_000_000_000_000> = $body_bytes,
                /// Bytes of memory that turns by text hold at a time: what came with them and what they read, as it is kept and sent.
                turn_bytes_max: Whole<1_024, 1_000_000_000_000> = $turn_bytes,
                /// Requests in a minute.
                requests_per_minute_max: Whole<1, 100_000_000> = $requests,
                /// Messages in a minute that a model is asked to answer.
                turns_per_minute_max: Whole<1, 100_000_000> = $turns,
                /// Messages on voice connections in a second, audio among them. More are read later.
                frames_per_second_max: Whole<1, 100_000_000> = $frames,
                /// Bytes of these messages in a second.
                frame_bytes_per_second_max: Whole<1_024, 1_000_000_000_000> = $frame_bytes,
            }
        }

        impl $name {
            pub fn share(&self) -> Share {
                Share {
                    connections_max: self.connections_max.get(),
                    sessions_max: self.sessions_max.get(),
                    body_bytes_max: self.body_bytes_max.get(),
                    turn_bytes_max: self.turn_bytes_max.get(),
                    requests_per_minute_max: self.requests_per_minute_max.get(),
                    turns_per_minute_max: self.turns_per_minute_max.get(),
                    frames_per_second_max: self.frames_per_second_max.get(),
                    frame_bytes_per_second_max: self.frame_bytes_per_second_max.get(),
                }
            }
        }
    };
}

share!(
    /// The share of an address.
    AddressShare = 1_024, 250, 20_000, 67_108_864, 134_217_728, 12_000, 1_200, 12_500, 16_777_216
);
share!(
    /// The share of a user.
    UserShare = 64, 8, 10_000, 33_554_432, 67_108_864, 1_200, 120, 1_000, 4_194_304
);
share!(
    /// The share of a tenant.
    TenantShare = 4_096, 1_000, 200_000, 268_435_456, 268_435_456, 60_000, 6_000, 60_000, 67_108_864
);

impl Shares {
    pub fn limits(&self, text: &Text) -> ShareLimits {
        ShareLimits {
            turn_bytes_max: text.turn_bytes_max.get(),
            address: self.address.share(),
            user: self.user.share(),
            tenant: self.tenant.share(),
        }
    }

    /// How many conversations each may have.
    pub fn conversations(&self) -> ConversationShares {
        ConversationShares {
            address_max: self.address.conversations_max.count(),
            user_max: self.user.conversations_max.count(),
            tenant_max: self.tenant.conversations_max.count(),
        }
    }
}

section! {
    /// The rules for who may come in, and how callers show who they are; see [security.md](security.md#who-may-come-in).
    pub struct Access {
        /// Whether every caller has to sign in. `auto`: where others than this machine reach the server, where an API key
        /// exists at the start, or where `access.oidc` is set. `none` is for a loopback address alone.
        auth: AuthKind = "auto",
        /// API keys that `windlass keys add` makes at most.
        keys_max: Whole<1, 100_000> = 1_000,
        /// Seconds that a ticket is good for.
        ticket_seconds: Whole<1, 600> = 60,
        /// Used tickets that are remembered until their time is over; with more the server takes no further ticket.
        tickets_max: Whole<1, 10_000_000> = 100_000,
        /// Minutes that a browser stays signed in on the page.
        page_minutes: Whole<1, 43_200> = 480,
        /// Set where users sign in at an OpenID provider.
        oidc: Option<Oidc>,
    }
}

section! {
    /// The OpenID provider whose tokens are believed.
    pub struct Oidc {
        /// Its address, as its tokens name it under `iss`. Set, callers may show its tokens.
        issuer: IssuerAddress,
        /// The `aud` of its tokens for this server.
        audience: Words,
        /// Where its keys are. Not set: where the issuer's `/.well-known/openid-configuration` says.
        keys_url: Option<WebAddress>,
        /// The claim that names the user. Not set: `sub`.
        user_claim: Option<Name>,
        /// The claim that names the tenant. Not set: all users are of one.
        tenant_claim: Option<Name>,
        /// The claim that lists the roles; dots lead into objects, as in `realm_access.roles`. Not set: `roles`.
        roles_claim: Option<Name>,
        /// The claim that names the time zone in which the user lives. Not set: `zoneinfo`.
        zone_claim: Option<Name>,
        /// This server's id at the provider. Set, the page offers to sign in there.
        client_id: Option<Words>,
        /// The secret that belongs to it, where the provider gave one.
        client_secret: Option<Secret>,
        /// The page's origin, as in `https://agent.example`; the provider has to know `/auth/callback` beneath it. Not set:
        /// `http://` and the host that the browser asks for.
        page_origin: Option<AllowedOrigin>,
        /// The scopes that the page asks the provider for, beside `openid`, separated by spaces.
        scope: Option<Words>,
        /// Seconds that the provider's keys are believed before they are fetched again. Not set: 3,600.
        keys_seconds: Option<Whole<1, 604_800>>,
        /// Seconds between two attempts to fetch the keys. Not set: 60.
        refetch_seconds: Option<Whole<1, 86_400>>,
        /// Seconds that the provider may take for one answer. Not set: 5.
        answer_seconds: Option<Whole<1, 60>>,
        /// Bytes of one answer. Not set: 262,144.
        answer_bytes_max: Option<Whole<1_024, 16_777_216>>,
    }
}

section! {
    /// Relative ones are relative to the working directory.
    pub struct Folders {
        /// Tool directories; see [tools.md](tools.md).
        tools: FilePath = "tools",
        /// Records of the knowledge base. `serve`, `chat` and `call` make the folder `kb` where it is missing, empty;
        /// one that you name has to be there.
        knowledge: FilePath = "kb",
        /// The folder of everything that must survive a restart: the store, the key that signs client ids, the compiled tools, the audit,
        /// journals. Created where it is missing.
        data: FilePath = "data",
        /// `core.md`, `voice.md` and `text.md`: [who your agent is](agent.md). A built-in text stands for each that is
        /// missing, and the log says so.
        prompts: FilePath = "prompts",
    }
}

section! {
    /// Handlers in JavaScript, which run in processes of their own; see [tools.md](tools.md#handlers-in-javascript).
    pub struct Scripts {
        /// Bytes of memory of one call: its sources and everything that it allocates.
        memory_bytes_max: Whole<1_048_576, 1_073_741_824> = 16_777_216,
        /// Milliseconds that one call may compute. Waiting does not count; that is what a tool's `timeoutMs` limits.
        compute_ms_max: Whole<1, 60_000> = 2_000,
        /// Bytes of an answer as JSON, and of each message and request of a call.
        answer_bytes_max: Whole<1_024, 67_108_864> = 1_048_576,
        /// Calls at a time in one process.
        calls_max: Whole<1, 4_096> = 256,
        /// Contexts that each process keeps ready for the next calls.
        spares: Whole<1, 64> = 4,
        /// Processes. The first serves; the others are ready for when it has a call that cannot be stopped.
        processes: Whole<1, 16> = 2,
    }
}

section! {
    /// The calendars that the [calendar tools](built-in-tools.md#the-calendar) read and write.
    pub struct Calendar {
        /// Who keeps the calendars: files in the data folder (`files`), or Google Calendar (`google`), which needs
        /// credentials under `calendar.google`.
        service: CalendarService = "files",
        /// Who makes the link of an event that asks for one: nobody (`none`), Zoom (`zoom`), which needs credentials under
        /// `calendar.zoom`, or Google Meet (`meet`), which Google Calendar alone has.
        conference: ConferenceService = "none",
        /// Calendars at Google.
        google: GoogleAccount,
        /// Meetings at Zoom.
        zoom: ZoomAccount,
        /// Where the calendars are: whose clock whole days, times without a zone, working hours and all answers have.
        zone: ZoneName = "UTC",
        /// When slots are offered, by day of the week, such as `Mon-Fri 09:00-12:00 13:00-17:00, Sat 10:00-14:00`. Empty for
        /// always.
        working_hours: WorkingTimes = "",
        /// Minutes that stay free before and after each event.
        buffer_minutes: Whole<0, 480> = 0,
        /// Whether events may be made at times that are taken.
        overlaps: bool = false,
        /// Which events a user sees with their texts, moves and cancels: those that the same user had made (`own`), or `all`. Taken
        /// times count in both.
        access: CalendarAccess = "own",
    }
}

section! {
    /// The tickets by which [`escalate`](built-in-tools.md#handing-over-to-a-person) hands a conversation over to a person.
    pub struct Escalation {
        /// Where each ticket is posted as JSON, signed as Standard Webhooks has it, such as `https://desk.example/hook`. Not set:
        /// people ask `GET /api/tickets` for them.
        webhook: Option<WebAddress>,
        /// The secret that signs what is posted: `whsec_` and 24 to 64 random bytes in base64.
        webhook_secret: Option<Secret>,
        /// Tickets of one conversation that may wait for an answer at a time.
        open_of_conversation_max: Whole<1, 100> = 3,
        /// The same of one user.
        open_of_user_max: Whole<1, 1_000> = 10,
        /// Tickets of one tenant that are kept. Where they are as many, the oldest ones that were answered make room.
        tickets_max: Whole<1, 100_000> = 2_000,
        /// Days that a ticket is kept after its last change.
        keep_days: Whole<1, 3_650> = 90,
    }
}

section! {
    /// Calls of [`background` tools](tools.md#work-in-the-background), which are tasks of their user's.
    pub struct Tasks {
        /// Tasks of one user that may run at a time; more are refused.
        running_of_user_max: Whole<1, 100_000> = 20,
        /// The same of one tenant.
        running_of_tenant_max: Whole<1, 1_000_000> = 1_000,
        /// Days that a task is kept after its end, not less than `store.effect_hours`. Its conversation is kept as long, so that whoever comes
        /// back is told.
        keep_days: Whole<1, 365> = 7,
        /// Where the end of each task is posted as JSON, signed as Standard Webhooks has it, such as `https://example.com/hook`.
        webhook: Option<WebAddress>,
        /// The secret that signs what is posted: `whsec_` and 24 to 64 random bytes in base64.
        webhook_secret: Option<Secret>,
    }
}

section! {
    /// How calendars at Google are reached. See [built-in-tools.md](built-in-tools.md#google-calendar).
    pub struct GoogleAccount {
        /// Google's id of the calendar that tools call `primary` and that events are made in. `primary` is that of whose
        /// credentials these are; a service account's own calendar is seen by nobody.
        calendar_id: Words = "primary",
        /// Google's ids of other calendars, by the names that tools call them.
        calendars: BTreeMap<CalendarName, Words>,
        /// The key file of a service account, as Google gives it: JSON.
        service_account: Option<FilePath>,
        /// The user in whose name the service account acts, by e-mail address. Needs the domain's consent, and without it
        /// Google lets a service account invite no guests.
        subject: Option<Name>,
        /// The id of the OAuth client that the refresh token was given to.
        client_id: Option<Name>,
        /// The secret of that client.
        client_secret: Option<Secret>,
        /// A user's lasting consent, with the scope `https://www.googleapis.com/auth/calendar`. In place of a service account.
        refresh_token: Option<Secret>,
        /// Whether Google writes to the guests when an event is made, moved or cancelled.
        invitations: bool = false,
        /// Milliseconds of each request.
        timeout_ms: Whole<100, 60_000> = 8_000,
        /// Where the API is.
        url: WebAddress = "https://www.googleapis.com/calendar/v3",
        /// Where tokens are given.
        token_url: WebAddress = "https://oauth2.googleapis.com/token",
    }
}

section! {
    /// The service that makes the pictures of [`image_generate`](built-in-tools.md#pictures).
    pub struct Images {
        /// Who makes them. `local` needs no key and has no AI in it: it draws a placeholder that shows nothing of the prompt.
        service: ImageService = "local",
        /// The service's model. Not set: `gemini-2.5-flash-image` for `gemini`, `gpt-image-1` for `openai`.
        model: Option<Name>,
        /// Where the service is, as in `https://host/v1`. Not set: the provider's own address. With it a key may be missing.
        url: Option<WebAddress>,
        /// The service's key. Also taken from `OPENAI_API_KEY` for `openai`, from `GEMINI_API_KEY` and then `GOOGLE_API_KEY` for
        /// `gemini`. Where `images.url` is set, only this key goes there.
        api_key: Option<Secret>,
        /// Bytes of one picture that a service makes. A larger one is refused.
        picture_bytes_max: Whole<65_536, 33_554_432> = 8_388_608,
    }
}

section! {
    /// The service that searches the web for [`web_search`](built-in-tools.md#web-search).
    pub struct Search {
        /// Who searches. `openai` is a model that searches itself, of OpenAI or of a server compatible with its Chat Completions.
        service: SearchService = "none",
        /// The model of `openai`. Not set: `gpt-4o-search-preview`.
        model: Option<Name>,
        /// Where the service is, as in `https://host/v1`. Not set: the provider's own address. With it a key may be missing.
        url: Option<WebAddress>,
        /// The service's key. Also taken from `BRAVE_SEARCH_API_KEY` and then `BRAVE_API_KEY` for `brave`, from `TAVILY_API_KEY` for
        /// `tavily`, from `OPENAI_API_KEY` for `openai`. Where `search.url` is set, only this key goes there.
        api_key: Option<Secret>,
    }
}

impl Images {
    /// The setting that is missing before pictures can be made; `None` if none is.
    pub fn lacks(&self) -> Option<&'static str> {
        let has_key = self.api_key.is_some() || self.url.is_some();
        (self.service != ImageService::Local && !has_key)
            .then_some("set images.api_key, or images.url to a server without one")
    }
}

impl Search {
    /// The setting that is missing before the web can be searched; `None` if none is.
    pub fn lacks(&self) -> Option<&'static str> {
        match self.service {
            SearchService::None => {
                Some("set search.service to brave, tavily or openai, and search.api_key")
            }
            _ if self.api_key.is_none() && self.url.is_none() => {
                Some("set search.api_key, or search.url to a server without one")
            }
            _ => None,
        }
    }
}

/// The service that makes pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageService {
    Local,
    Gemini,
    OpenAi,
}

/// The service that searches the web.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SearchService {
    None,
    Brave,
    Tavily,
    OpenAi,
}

section! {
    /// A server-to-server OAuth app of Zoom, whose owner's meetings these are.
    pub struct ZoomAccount {
        /// The account's id.
        account_id: Option<Name>,
        /// The app's id.
        client_id: Option<Name>,
        /// The app's secret.
        client_secret: Option<Secret>,
        /// Milliseconds of each request.
        timeout_ms: Whole<100, 60_000> = 8_000,
        /// Where the API is.
        url: WebAddress = "https://api.zoom.us/v2",
        /// Where tokens are given.
        token_url: WebAddress = "https://zoom.us/oauth/token",
    }
}

/// The service that keeps the calendars.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CalendarService {
    Files,
    Google,
}

/// The service that makes links of conferences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConferenceService {
    None,
    Zoom,
    Meet,
}

/// The events that a user sees and changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CalendarAccess {
    Own,
    All,
}

section! {
    /// How records are read and found, and who may read which namespace.
    pub struct Knowledge {
        /// The model that finds records by meaning. `auto` is the local model where `windlass kb model add` has put it into the
        /// data folder, else none.
        embedder: EmbedderKind = "auto",
        /// The service's model. Not set: `text-embedding-3-small` for `openai`, `gemini-embedding-001` for `gemini`.
        embedder_model: Option<Name>,
        /// Where the service is, as in `https://host/v1`. Not set: the provider's own address.
        embedder_url: Option<WebAddress>,
        /// Numbers of a vector. Not set: 768.
        embedder_dimension: Option<Whole<8, 4_096>>,
        /// The service's key. Also taken from `OPENAI_API_KEY` for `openai`, from `GEMINI_API_KEY` and then
        /// `GOOGLE_API_KEY` for `gemini`. Where `knowledge.embedder_url` is set, only this key goes there.
        embedder_key: Option<Secret>,
        /// The database that holds the records, as `postgres://user:password@host/database`. Not set: the folder, in
        /// memory. Needs a program that was built with PostgreSQL; see
        /// [knowledge.md](knowledge.md#postgresql).
        postgres: Option<Secret>,
        /// Vectors in the database that are compared one by one. Where there are more, `windlass kb index` and
        /// `windlass kb move` make an approximate index, and searches whose filters let more records through than this
        /// go through it.
        postgres_exact_max: Whole<1, 10_000_000> = 10_000,
        /// A PEM file with the certificates of the authorities that the database's own is checked against. Not set: the
        /// public ones.
        postgres_root_certificate: Option<FilePath>,
        /// Milliseconds that an answer waits for its question's vector in voice; then words alone answer.
        wait_voice_ms: Whole<0, 10_000> = 25,
        /// The same in text.
        wait_text_ms: Whole<0, 60_000> = 1_000,
        /// Whether the server takes up changes of the folder while it runs.
        watch: bool = true,
        /// Bytes of one Markdown file.
        file_bytes_max: Whole<1, 67_108_864> = 1_048_576,
        /// Bytes of one JSON, JSON Lines, YAML or CSV file.
        data_file_bytes_max: Whole<1, 1_073_741_824> = 33_554_432,
        /// Files and folders of the base.
        files_max: Whole<1, 10_000_000> = 100_000,
        /// Records of the base.
        records_max: Whole<1, 10_000_000> = 200_000,
        /// Who may read each namespace.
        namespaces: BTreeMap<NamespaceName, Namespace>,
    }
}

section! {
    /// The readers of a namespace, as the file has them.
    pub struct Namespace {
        /// Who may read the namespace. Not set: everybody, or the owners or the roles where some are named.
        readers: Option<ReadersKind>,
        /// The ids of the users who alone may read it.
        owners: Option<BTreeSet<Words>>,
        /// The roles whose users alone may read it.
        roles: Option<BTreeSet<RoleName>>,
    }
}

section! {
    /// The model that voice sessions talk to.
    pub struct Provider {
        /// Who speaks. `auto` is Gemini Live where there are credentials or an address, OpenAI Realtime where `OPENAI_API_KEY`
        /// alone is set, else the demo model, which has no AI in it. `gpt-live` hands what needs a tool over to the model of
        /// `[text]`.
        kind: ProviderKind = "auto",
        /// The model's id, with or without `models/`. With `openai-realtime` the default is
        /// `gpt-realtime-2.1`, with `gpt-live` `gpt-live-1`.
        model: Name = GEMINI_LIVE_MODEL,
        /// Where the provider is, in place of its own host: `ws://`, `wss://`, `http://` or `https://`, with or without
        /// a path. With it credentials may be missing.
        url: Option<ProviderUrl>,
        /// Version in the provider's address, such as `v1beta`, and for Azure Voice Live `2026-04-10`. Not set: the one that
        /// suits the credentials.
        api_version: Option<Name>,
        /// The key. Also taken from the variable that `provider.api_key_env` names, then from `GEMINI_API_KEY`, then
        /// from `GOOGLE_API_KEY`; with `openai-realtime` and `gpt-live` from `OPENAI_API_KEY` in their place, and with `auto`
        /// from it where none of them is set.
        api_key: Option<Secret>,
        /// Name of an environment variable that holds the key.
        api_key_env: Option<Name>,
        /// `auth_tokens/…`, in place of a key. Not with Vertex AI.
        ephemeral_token: Option<Secret>,
        /// How varied the answers are; lower is steadier.
        temperature: Option<Temperature>,
        /// Tokens of one answer.
        output_tokens_max: Option<Whole<1, 1_000_000>>,
        /// How much the model thinks; sent only to models that take levels.
        thinking_level: Option<ThinkingLevel>,
        /// Tokens that the model may think; 0 turns thinking off. Sent only to models that take budgets.
        thinking_budget_tokens: Option<Whole<0, 1_000_000>>,
        /// Tools that the provider runs itself, beside our own, such as `["google_search"]`. The server does not start with
        /// a model that does not take them; see [providers.md](providers.md#tools-of-the-provider).
        provider_tools: BTreeSet<ProviderTool> = NO_ITEMS,
        /// Whether the provider forgets the oldest turns when the model's window is full. Without it the session ends
        /// then.
        context_compression: bool = true,
        /// Tokens at which it begins.
        compression_trigger_tokens: Option<Whole<1, 10_000_000>>,
        /// Tokens that it leaves; less than the trigger.
        compression_target_tokens: Option<Whole<1, 10_000_000>>,
        /// Set where sessions go to Vertex AI.
        vertex: Option<Vertex>,
    }
}

section! {
    /// The place of a model at Vertex AI.
    pub struct Vertex {
        /// A region such as `europe-west4`, or `global`. Set, it sends sessions to Vertex AI.
        location: Name,
        /// The project of the model. Not set: express mode, with an API key.
        project: Option<Name>,
        /// An OAuth 2 access token. It is sent as it is and not renewed.
        access_token: Option<Secret>,
        /// The project that pays, where it is not the token's own.
        quota_project: Option<Name>,
    }
}

section! {
    /// The speech of voice sessions; the provider decides settings that are not set.
    pub struct Voice {
        /// Voice of the model, such as `Kore`.
        name: Option<Words>,
        /// BCP 47 tag, such as `en-GB`.
        language: Option<Name>,
        /// Whether what the user says is transcribed.
        transcribe_input: bool = true,
        /// The model that does so, where the provider has several; on Azure the name of its deployment. Not set: one that
        /// suits the provider. Gemini Live has its own.
        transcription_model: Option<Name>,
        /// Whether what the model says is transcribed.
        transcribe_output: bool = true,
        /// Whether the user's speech interrupts the model.
        barge_in: bool = true,
        /// How readily sound is taken for the start of speech.
        start_sensitivity: Option<Sensitivity>,
        /// How readily a pause is taken for the end of speech.
        end_sensitivity: Option<Sensitivity>,
        /// Milliseconds of speech before its start is believed; so long must speech last to interrupt.
        prefix_padding_ms: Option<Whole<0, 10_000>>,
        /// Milliseconds of silence before the end of speech is believed.
        silence_ms: Option<Whole<0, 10_000>>,
        /// Bytes of one picture that a client shows.
        image_bytes_max: Whole<1_024, 2_097_152> = 1_048_576,
        /// Tokens of the prompt that full tool guides may take; the other tools have one line each and can be asked
        /// about with `describe_tool`. A token is reckoned as four characters.
        guides_tokens_max: Whole<0, 1_000_000> = 4_000,
        /// The limits of voice sessions.
        limits: Limits = Limits::of(Mode::Voice),
    }
}

section! {
    /// The model that answers by text, the server's patience with it, and the size of kept conversations.
    pub struct Text {
        /// Who answers. `openai` is OpenAI and every server compatible with its Responses or Chat Completions; `auto` is `openai`
        /// where `text.url` is set, else the one that there is a key for, else the demo model.
        provider: TextProviderKind = "auto",
        /// The model's id. Not set: the provider's own default, `gemini-3.5-flash` or `gpt-5.4-mini`.
        model: Option<Name>,
        /// Models of the same server that are asked, in this order, where the model fails.
        fallback_models: Vec<Name> = NO_ITEMS,
        /// A cheap model of the same server that summarises what no longer fits `text.history_tokens_max` or the model's window,
        /// beside the turns. Not set: it is left out, and where the window is the smaller of the two the model itself summarises it.
        summary_model: Option<Name>,
        /// The server in place of the provider's own, as in `https://host/v1`. With it a key may be missing.
        url: Option<WebAddress>,
        /// The key. Not set: `OPENAI_API_KEY` for `openai`; for `gemini` that of voice sessions, or
        /// `GEMINI_API_KEY`, or `GOOGLE_API_KEY`. Where `text.url` is set, only this key goes there.
        api_key: Option<Secret>,
        /// Another variable that holds the key.
        api_key_env: Option<Name>,
        /// How varied the answers are; lower is steadier.
        temperature: Option<Temperature>,
        /// Tokens of one answer.
        output_tokens_max: Option<Whole<1, 1_000_000>>,
        /// How much the model thinks; sent only to models that take levels. `none` is for OpenAI's protocols alone.
        thinking_level: Option<ThinkingLevel>,
        /// Tokens that the model may think; 0 turns thinking off. Sent only to models that take budgets.
        thinking_budget_tokens: Option<Whole<0, 1_000_000>>,
        /// Like `provider.provider_tools`, for conversations by text.
        provider_tools: BTreeSet<ProviderTool> = NO_ITEMS,
        /// Bytes of one line of a model's answer. One with a picture in it is long.
        answer_line_bytes_max: Whole<65_536, 67_108_864> = 16_777_216,
        /// Tokens of the conversation that go to the model; the oldest turns are left out first. A token is reckoned as
        /// four characters.
        history_tokens_max: Whole<256, 10_000_000> = 32_000,
        /// How often a model is asked again after a failure that may pass.
        request_retries_max: Whole<0, 10> = 2,
        /// Requests to the model in one turn; the last of them is made without tools.
        requests_max: Whole<2, 1_000> = 24,
        /// Seconds that one turn may take. What the user approves runs beside them.
        turn_seconds: Whole<1, 3_600> = 300,
        /// Bytes of one request of a client.
        request_bytes_max: Whole<1_024, 67_108_864> = 6_291_456,
        /// Pictures of one message; 0 takes none.
        images_max: Whole<0, 64> = 8,
        /// Bytes of all pictures of one message. In a request they take a third more, which `text.request_bytes_max`
        /// has to leave room for.
        images_bytes_max: Whole<0, 33_554_432> = 3_145_728,
        /// Bytes of all pictures that users have shown or that results brought. They are files of the data folder until nobody,
        /// user or model, was shown them for as long as a conversation is kept. Beyond them a picture is shown to the model in its own turn alone; 0 keeps none.
        pictures_bytes_max: Whole<0, 1_000_000_000_000> = 1_073_741_824,
        /// Bytes of last answers that are held in memory while their conversations rest, for clients that send a message
        /// again; those of the one that rests longest go first, and the log has them.
        resting_bytes_max: Whole<0, 1_073_741_824> = 8_388_608,
        /// Bytes of memory that all turns hold together. One more is refused with 503 and `Retry-After` until others have
        /// ended; see `shares` for what one party may hold of it.
        turn_bytes_max: Whole<1_048_576, 1_000_000_000_000> = 268_435_456,
        /// Seconds after its last turn that a conversation is forgotten; not more than `store.conversation_hours`.
        conversation_idle_seconds: Whole<1, 2_592_000> = 86_400,
        /// Seconds that an answer whose request says `resumable` goes on where nobody reads it.
        resume_seconds: Whole<1, 3_600> = 30,
        /// Like `voice.guides_tokens_max`.
        guides_tokens_max: Whole<0, 1_000_000> = 12_000,
        /// The limits of text sessions.
        limits: Limits = Limits::of(Mode::Text),
    }
}

section! {
    /// Changes to a model's built-in profile.
    pub struct ModelChange {
        /// The row of the profiles in [providers.md](providers.md#model-profiles) that the model has, in place of the one
        /// that its id or its server finds.
        like: Option<ProfileRow>,
        /// The kinds of calls that the model makes.
        calls: Option<CallSupport>,
        /// Whether the microphone is held back while a blocking call is open.
        hold_microphone: Option<bool>,
        /// Whether the model is told how much to think, and how.
        thinking: Option<Thinking>,
        /// Whether the model takes images.
        vision: Option<bool>,
        /// Tokens of the model's window.
        context_tokens_max: Option<Whole<1, 1_000_000_000>>,
        /// Whether what stands between `<think>` and `</think>` in an answer by text is a thought, and is shown to nobody.
        thought_tags: Option<bool>,
        /// Whether the model takes a temperature by text; others are sent none.
        temperature: Option<bool>,
        /// Which of its provider's protocols a model by text is asked by: `responses` or `chat_completions` of `openai`,
        /// `generate_content` or `interactions` of `gemini`.
        transport: Option<TextTransport>,
    }
}

section! {
    /// Settings that make a tool stricter.
    pub struct ToolChange {
        /// `true` asks the user before every call.
        requires_confirmation: Option<bool>,
        /// `false` has every call ask that needs consent, although the tool lets the user have one remembered.
        remember: Option<bool>,
        /// A part of the tool's own modes: `["text"]`, `["voice"]`.
        allowed_modes: Option<Vec<Mode>>,
        /// Milliseconds of one attempt, at most the tool's own.
        timeout_ms: Option<Whole<1, 86_400_000>>,
        /// Both of its keys are set, or none.
        rate_limit: Option<RateLimitChange>,
        /// `true` keeps the tool from callers that have not signed in.
        requires_auth: Option<bool>,
        /// The roles whose users alone may use the tool: a part of its own, where its `schema.json` names some.
        roles: Option<BTreeSet<RoleName>>,
        /// The roles whose users alone may approve its calls, in the same way.
        approver_roles: Option<BTreeSet<RoleName>>,
        /// Variables of the server's environment that the tool's own process is given besides the usual ones; see
        /// [tools.md](tools.md#a-process-of-your-own).
        env: Option<BTreeSet<VariableName>>,
        /// Names of secrets that the tool's script or process may have as they are, with `context.secret(NAME)`; see
        /// [tools.md](tools.md#secrets-in-code). No list of hosts bounds what it does with them.
        secrets: Option<BTreeSet<SecretName>>,
        /// Names of connections whose access tokens the tool's script or process may have, each for its own user, with
        /// `context.connection(NAME)`; see [connections.md](connections.md#scripts-and-processes). No list of hosts bounds what it does
        /// with them.
        connections: Option<BTreeSet<ConnectionName>>,
        /// The version of the tool for everybody whom no other rule names; without, the one in the tool's own folder. See
        /// [tools.md](tools.md#versions).
        version: Option<Version>,
        /// Who gets another version, by its number in quotes: `[tools.TOOL.versions."1.2.0"]`.
        versions: Option<BTreeMap<VersionName, VersionChange>>,
    }
}

section! {
    /// The users who get one version of a tool: the most personal rule counts, in this order.
    pub struct VersionChange {
        /// Ids of users, as the audit has them.
        users: Option<BTreeSet<Words>>,
        /// Roles whose users get it. Of two versions with a role of one user, the user gets the higher one.
        roles: Option<BTreeSet<RoleName>>,
        /// Tenants whose users get it.
        tenants: Option<BTreeSet<Words>>,
        /// The number of 100 other users who get it, always the same ones. The percentages of a tool add up to 100 at most; the rest gets
        /// `tools.TOOL.version`.
        percent: Option<Whole<0, 100>>,
    }
}

section! {
    /// A limit on one user's calls of a tool.
    pub struct RateLimitChange {
        /// Calls of one user in the window, at most the tool's own; together with the next key.
        calls: Whole<1, 1_000_000>,
        /// Milliseconds, at least the tool's own.
        window_ms: Whole<1, 86_400_000>,
    }
}

section! {
    /// Rights of the handlers that come as files of tools; see [tools.md](tools.md#tools-without-rust).
    pub struct Handlers {
        /// Whether a `handler.json` of kind `process` may run its program, with the rights of the server's user.
        processes: bool = false,
        /// Hosts that tools may send requests to, each with a port where it is not the usual one, such as
        /// `["api.example.com", "127.0.0.1:3000"]`. An address that is not public has to be listed itself. The address
        /// in a `handler.json` needs no line here. `--allow-fetch` sets it, too.
        allow_fetch: BTreeSet<FetchPlace> = NO_ITEMS,
        /// Seconds that such a request may take; never more than its call has left.
        fetch_seconds: Whole<1, 86_400> = 600,
        /// Bytes of an answer to such a request.
        fetch_bytes_max: Whole<1_024, 67_108_864> = 8_388_608,
        /// Whether the proxy finds the addresses of those hosts, on networks where this machine cannot. Then the proxy has
        /// to keep requests from addresses that are not public. See [security.md](security.md#through-a-proxy).
        proxy_resolves_names: bool = false,
        /// Bytes of one line of a tool's own process. A process that writes more without an end of line is ended.
        worker_line_bytes_max: Whole<1_024, 67_108_864> = 8_388_608,
        /// Milliseconds that a call may go on in a tool's own process after its time. Then the process gets no further
        /// calls, and is ended and started again when the others have ended.
        worker_stuck_ms: Whole<0, 600_000> = 5_000,
    }
}

section! {
    /// A secret that a `handler.json` names as `{secret:NAME}`, and where it may go. No other value of the configuration, and no
    /// other variable of the environment, can be named there.
    pub struct HandlerSecret {
        /// The secret. Also taken from the environment variable `WINDLASS_SECRET_` and its name, which comes first.
        value: Option<Secret>,
        /// Hosts that it may be sent to, each with a port where it is not the usual one, such as `["api.example.com"]`.
        /// Not set: none.
        hosts: Option<BTreeSet<FetchPlace>>,
    }
}

section! {
    /// A server that speaks the Model Context Protocol; see [mcp.md](mcp.md). It has `url` or `command`.
    pub struct McpServer {
        /// Where it is, over streamable HTTP, such as `https://mcp.example.com/mcp`. Nothing follows a redirect from there.
        url: Option<McpUrl>,
        /// The name of a secret that it is sent as `Authorization: Bearer`. The secret's `hosts` have to name the server's host.
        bearer: Option<SecretName>,
        /// The name of a [connection](connections.md#mcp-servers): each call is sent with the access token of its own user. The
        /// connection's `hosts` have to name the server's host. `bearer` is for importing alone then.
        connection: Option<ConnectionName>,
        /// Headers that it is sent, each with the name of a secret as its value, such as `X-Api-Key = "DOCS_KEY"`.
        headers: Option<BTreeMap<HeaderLabel, SecretName>>,
        /// The program and its arguments, such as `["npx", "-y", "@modelcontextprotocol/server-filesystem@2026.7.10", "docs"]`. It
        /// runs with the rights of the server's user, speaks over its standard input and output, and is started again where it
        /// ends.
        command: Option<Vec<Argument>>,
        /// The folder in which the program runs. Not set: that in which Windlass does.
        folder: Option<FilePath>,
        /// Variables of the server's environment that the program is given besides the usual ones; see
        /// [tools.md](tools.md#a-process-of-your-own).
        env: Option<BTreeSet<VariableName>>,
        /// Names of secrets that the program is given as variables of the same names.
        secrets: Option<BTreeSet<SecretName>>,
        /// Seconds that it may take to be there and to list its tools; 30 where this is not set.
        start_seconds: Option<Whole<1, 600>>,
        /// Seconds after which its list of tools is asked for again, before the next call; 60 where this is not set.
        recheck_seconds: Option<Whole<1, 86_400>>,
        /// Calls at a time; 16 where this is not set. Others wait.
        concurrency: Option<Whole<1, 1_024>>,
        /// Bytes of one message of it; 8,388,608 where this is not set. A call whose answer is longer fails.
        message_bytes_max: Option<Whole<1_024, 67_108_864>>,
    }
}

section! {
    /// A service that tools ask on behalf of each user, who connects an account of theirs by OAuth 2.1; see
    /// [connections.md](connections.md). It has `issuer`, or `authorization_url` and `token_url`; and `client_id`.
    pub struct Connection {
        /// The name of the service for users, such as `Example Shop`. Not set: the name of the connection.
        title: Option<Words>,
        /// The address of the authorization server, exactly as its metadata and the `iss` of its answers have it. Its metadata
        /// (RFC 8414, or that of OpenID Connect) say every address that is not set here.
        issuer: Option<IssuerAddress>,
        /// The page at which users agree.
        authorization_url: Option<WebAddress>,
        /// The address that gives tokens. Nothing follows a redirect from there.
        token_url: Option<WebAddress>,
        /// The address that takes tokens back (RFC 7009) when a user ends the connection.
        revocation_url: Option<WebAddress>,
        /// This server's id at the authorization server.
        client_id: Option<Words>,
        /// The secret that belongs to it, where the authorization server gave one.
        client_secret: Option<Secret>,
        /// The scopes that are asked for.
        scopes: Option<BTreeSet<TokenScope>>,
        /// The service that the tokens are for, as RFC 8707 has it.
        resource: Option<WebAddress>,
        /// Hosts that access tokens may be sent to, each with a port where it is not the usual one, such as
        /// `["api.example.com"]`. Not set: none.
        hosts: Option<BTreeSet<FetchPlace>>,
        /// The origin of this server for browsers, as in `https://agent.example`; the authorization server has to know
        /// `/connections/callback/NAME` beneath it, with the name of the connection. Not set: `access.oidc.page_origin`, or `http://` and the host that the browser asks for.
        page_origin: Option<AllowedOrigin>,
        /// `true` lets a person who opens a link connect for the user to whom the link was given, also in a browser that is not known
        /// to be that user's; see [connections.md](connections.md#whose-browser).
        any_browser: Option<bool>,
        /// Seconds that the authorization server may take for one answer. Not set: 10.
        answer_seconds: Option<Whole<1, 120>>,
        /// Bytes of one answer. Not set: 262,144.
        answer_bytes_max: Option<Whole<1_024, 16_777_216>>,
    }
}

section! {
    /// This project's tools for programs that speak the Model Context Protocol, at `/mcp` and by `windlass mcp serve`; see
    /// [mcp.md](mcp.md#serving-your-tools).
    pub struct McpEndpoint {
        /// Whether there is `/mcp`. `windlass mcp serve` needs no such key.
        enabled: bool = false,
        /// The address of `/mcp` as clients reach it, such as `https://agent.example/mcp`. Set, tokens of the OpenID provider have to name
        /// it under `aud` there, and count nowhere else; clients are told so. The page on which people approve calls is beside it.
        resource: Option<WebAddress>,
        /// Where people approve calls: where their client asks them, if it can, or on the page (`client`), or on the page alone
        /// (`page`).
        approvals: ApprovalPlace = "client",
        /// Whether the model behind a client counts as one that has read texts of others, so that no tool changes anything before a
        /// person has approved it. Nobody here knows what it has read.
        assume_external_content: bool = true,
        /// Seconds within which a change that a client asks for again, without a key of its own for it, is taken for a call whose answer
        /// was lost. Later a person is asked whether to do it once more, where there is a way to ask.
        repeat_seconds: Whole<0, 86_400> = 600,
        /// Bytes of one message.
        message_bytes_max: Whole<1_024, 67_108_864> = 1_048_576,
        /// Calls that may be open at a time, of all clients together; one more is refused.
        calls_max: Whole<1, 1_000_000> = 512,
        /// Sessions of clients that begin with a handshake. One more takes the place of the one that was quiet for longest, of whoever has the most.
        sessions_max: Whole<1, 1_000_000> = 1_000,
        /// Seconds that such a session is kept without a request.
        session_seconds: Whole<10, 86_400> = 3_600,
        /// Seconds for which clients may keep a list.
        list_seconds: Whole<0, 86_400> = 60,
    }
}

section! {
    /// The threads of handlers that do not promise to return at once, and the shares of tools, sessions and tenants in them. Scripts,
    /// webhooks, HTTP requests and processes, which hold no thread, are held to the same shares. A handler that holds a thread beyond
    /// the time of its call loses it: another takes its place, and the log says so.
    pub struct Threads {
        /// Threads at a time, without those that were lost to handlers.
        handlers_max: Whole<1, 256> = 64,
        /// Threads that one tool may hold, with those that were lost to it. Where it has lost all, its calls fail at once.
        tool_max: Whole<1, 256> = 16,
        /// The same for one session.
        session_max: Whole<1, 256> = 8,
        /// The same for all sessions of one tenant.
        tenant_max: Whole<1, 4_096> = 256,
        /// Threads that may be lost before no more are replaced.
        lost_max: Whole<0, 4_096> = 192,
    }
}

impl Threads {
    pub fn limits(&self) -> ThreadLimits {
        ThreadLimits {
            threads_max: self.handlers_max.count(),
            tool_threads_max: self.tool_max.count(),
            session_threads_max: self.session_max.count(),
            tenant_threads_max: self.tenant_max.count(),
            written_off_max: self.lost_max.count(),
        }
    }
}

section! {
    /// The audit.
    pub struct Audit {
        /// Whether finished and refused calls are written down.
        enabled: bool = true,
        /// The file. Not set: `audit.jsonl` in the data folder. A file that holds something else, or that the server
        /// has for something else, is refused at the start and left as it is.
        path: Option<FilePath>,
        /// Whether arguments are written too, without those that a tool marks as sensitive. Else only their hash is.
        arguments: bool = false,
        /// Bytes of a file before the next one begins.
        file_bytes_max: Whole<1_000, 1_000_000_000_000> = 100_000_000,
    }
}

/// A bound of the store.
type StoreBound = Whole<1, 100_000_000>;

section! {
    /// How much the store keeps of each conversation, and for how long.
    pub struct Store {
        /// Hours for which an effect and a question are kept after their last change.
        // A shorter memory than a day could let an effect happen twice.
        effect_hours: Whole<24, 8_760> = 24,
        /// Effects of one conversation; more are refused.
        effects_max: StoreBound = 1_000,
        /// Bytes of a recorded response; of a longer one only the outcome is kept.
        receipt_bytes_max: StoreBound = 262_144,
        /// Questions of one conversation that wait for the user's answer; more are refused.
        questions_max: StoreBound = 20,
        /// Standing approvals of one conversation: what users have approved once for all calls with the same values; the oldest make
        /// room.
        standing_approvals_max: Whole<1, 100> = 16,
        /// Bytes of a question's arguments, and of its text.
        question_bytes_max: StoreBound = 65_536,
        /// Hours for which a conversation is kept without use.
        conversation_hours: Whole<1, 8_760> = 24,
        /// Entries of one conversation; the oldest go.
        entries_max: StoreBound = 2_000,
        /// Bytes of one entry.
        entry_bytes_max: StoreBound = 262_144,
        /// Bytes of what is kept of a session, so that it can go on after a restart.
        leg_bytes_max: StoreBound = 1_048_576,
        /// Milliseconds after the end of an attempt's time in which its request may still take effect outside. That a
        /// handler finds nothing counts only when it was asked after that.
        landing_ms: Whole<0, 3_600_000> = 60_000,
        /// [Connections](connections.md) of users that are kept; further ones are refused.
        user_connections_max: Whole<1, 1_000_000> = 100_000,
    }
}

section! {
    /// The recording of sessions, with the words of their users.
    pub struct Journal {
        /// Whether sessions are recorded.
        enabled: bool = false,
        /// Where the journals are. Not set: `journal` in the data folder.
        folder: Option<FilePath>,
        /// Bytes of one session's journal; what comes later is not recorded.
        file_bytes_max: Whole<1_000, 1_000_000_000_000> = 100_000_000,
        /// How many journals are kept; the oldest go.
        files_max: Whole<1, 1_000_000> = 100,
    }
}

section! {
    /// The log.
    pub struct Log {
        /// The least severe lines that are written.
        level: LogLevel = "info",
        /// How a line looks; `json` is one object per line.
        format: LogFormat = "text",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProviderKind {
    /// Gemini Live where there are credentials or an address of its own, OpenAI Realtime where there is a key of OpenAI's alone,
    /// else the demo model.
    Auto,
    GeminiLive,
    OpenaiRealtime,
    GptLive,
    Demo,
}

/// Why each mode has its model, in words that follow "because".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reasons {
    pub voice: String,
    pub text: String,
}

/// The provider for text, as the file has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextProviderKind {
    Auto,
    Gemini,
    Openai,
    Demo,
}

/// The provider for text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextProvider {
    Gemini,
    /// OpenAI, and every server that is compatible with its Chat Completions.
    Openai,
    /// Rules without AI.
    #[default]
    Demo,
}

/// The embedder: it makes vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EmbedderKind {
    /// The local model where it was added to the data folder, else none.
    Auto,
    None,
    Local,
    OpenAi,
    Gemini,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadersKind {
    Everybody,
    SignedIn,
    Roles,
    Owners,
}

/// Whether callers have to sign in, as it is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthKind {
    Auto,
    None,
    Required,
}

/// The place where people approve the calls of MCP clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalPlace {
    Client,
    Page,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    Text,
    Json,
}

choices!(
    ProviderKind,
    TextProviderKind,
    EmbedderKind,
    ReadersKind,
    CalendarAccess,
    ImageService,
    SearchService,
    CalendarService,
    ConferenceService,
    AuthKind,
    ApprovalPlace,
    LogLevel,
    LogFormat,
    CallSupport,
    Thinking,
    TextTransport,
);

/// The readers of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamespaceReaders {
    Everybody,
    SignedIn,
    Roles(BTreeSet<Role>),
    Owners(BTreeSet<String>),
}

impl Namespace {
    /// Else the key that makes no sense beside the other one, and why.
    pub(super) fn check(&self) -> Result<NamespaceReaders, (&'static str, &'static str)> {
        match (self.readers, self.owners.as_ref(), self.roles.as_ref()) {
            (Some(ReadersKind::Owners) | None, Some(owners), None) if !owners.is_empty() => {
                let owners = owners.iter().map(|owner| owner.as_str().to_owned());
                Ok(NamespaceReaders::Owners(owners.collect()))
            }
            (Some(ReadersKind::Roles) | None, None, Some(roles)) if !roles.is_empty() => {
                let roles = roles.iter().map(|role| role.get().clone());
                Ok(NamespaceReaders::Roles(roles.collect()))
            }
            (Some(ReadersKind::Owners), ..) => Err((
                "readers",
                "names no owners; list them under owners beside it, as in owners = [\"ada\"]",
            )),
            (Some(ReadersKind::Roles), ..) => Err((
                "readers",
                "names no roles; list them under roles beside it, as in roles = [\"staff\"]",
            )),
            (_, Some(_), _) => Err((
                "owners",
                "is of no use with those readers; write readers = \"owners\", or leave one of the two out",
            )),
            (_, None, Some(_)) => Err((
                "roles",
                "is of no use with those readers; write readers = \"roles\", or leave one of the two out",
            )),
            (Some(ReadersKind::SignedIn), None, None) => Ok(NamespaceReaders::SignedIn),
            (Some(ReadersKind::Everybody) | None, None, None) => Ok(NamespaceReaders::Everybody),
        }
    }
}

impl Calendar {
    /// Else the key that makes no sense beside the others, and why.
    pub(super) fn check(&self) -> Result<(), (&'static str, &'static str)> {
        let google = &self.google;
        let has_consent = google.client_id.is_some()
            && google.client_secret.is_some()
            && google.refresh_token.is_some();
        let is_google = self.service == CalendarService::Google;
        if is_google && google.service_account.is_some() && google.refresh_token.is_some() {
            return Err((
                "google.refresh_token",
                "is of no use beside calendar.google.service_account; leave one of the two out",
            ));
        }
        if is_google && google.service_account.is_none() && !has_consent {
            return Err((
                "service",
                "needs credentials; set calendar.google.service_account, or client_id, client_secret and refresh_token \
                 beside it",
            ));
        }
        if google.calendars.keys().any(|name| name.as_str() == PRIMARY) {
            return Err((
                "google.calendars.primary",
                "is of no use, because calendar.google.calendar_id is the calendar that tools call primary; leave one of the \
                 two out",
            ));
        }
        if google.subject.is_some() && google.service_account.is_none() {
            return Err((
                "google.subject",
                "is of no use without calendar.google.service_account; leave it out",
            ));
        }
        let zoom = &self.zoom;
        let has_zoom =
            zoom.account_id.is_some() && zoom.client_id.is_some() && zoom.client_secret.is_some();
        match self.conference {
            ConferenceService::Zoom if !has_zoom => Err((
                "conference",
                "needs credentials; set calendar.zoom.account_id, calendar.zoom.client_id and calendar.zoom.client_secret",
            )),
            ConferenceService::Meet if !is_google => Err((
                "conference",
                "needs Google Calendar; set calendar.service = \"google\", or write zoom or none",
            )),
            ConferenceService::None | ConferenceService::Zoom | ConferenceService::Meet => Ok(()),
        }
    }
}

impl Knowledge {
    /// The readers of each namespace.
    pub fn readers(&self) -> BTreeMap<String, NamespaceReaders> {
        let nobody = NamespaceReaders::Owners(BTreeSet::new());
        let readers = self.namespaces.iter().map(|(name, namespace)| {
            let readers = namespace.check().unwrap_or(nobody.clone());
            (name.as_str().to_owned(), readers)
        });
        readers.collect()
    }
}

impl Config {
    /// The rights and secrets that the configuration gives handlers.
    pub fn permissions(&self) -> Permissions {
        let secrets = self.handler_secrets().into_iter();
        Permissions {
            processes: self.handlers.processes,
            secrets: secrets.map(|(name, secret)| (name, secret.hosts)).collect(),
            mcp_servers: self
                .mcp
                .keys()
                .map(|name| name.as_str().to_owned())
                .collect(),
            connections: self
                .connections
                .iter()
                .map(|(name, connection)| (name.as_str().to_owned(), connection.host_names()))
                .collect(),
        }
    }

    /// The secrets that a handler's file may name.
    pub fn handler_secrets(&self) -> BTreeMap<String, BoundSecret> {
        let secrets = self.secrets.iter().filter_map(|(name, secret)| {
            let hosts = secret.hosts.iter().flatten();
            let bound = BoundSecret {
                value: secret.value.as_ref()?.sensitive(),
                hosts: hosts.map(|host| host.as_str().to_owned()).collect(),
            };
            Some((name.as_str().to_owned(), bound))
        });
        secrets.collect()
    }

    /// The MCP servers, by name.
    pub fn mcp_servers(&self) -> BTreeMap<String, McpSettings> {
        let servers = self.mcp.iter();
        servers
            .map(|(name, server)| (name.as_str().to_owned(), server.settings(self)))
            .collect()
    }

    /// The variables that tools' own processes are given besides the usual ones.
    pub fn process_variables(&self) -> BTreeMap<ToolId, Vec<String>> {
        let tools = self.tools.iter().filter_map(|(id, change)| {
            let names = change.env.iter().flatten();
            let names: Vec<String> = names.map(|name| name.as_str().to_owned()).collect();
            (!names.is_empty()).then(|| (id.clone(), names))
        });
        tools.collect()
    }

    /// All variables that programs are given besides the usual ones, by the section that names them: `mcp.docs`, `tools.pay`.
    pub fn passed_variables(&self) -> BTreeMap<String, Vec<String>> {
        let names = |names: &Option<BTreeSet<VariableName>>| -> Vec<String> {
            let names = names.iter().flatten();
            names.map(|name| name.as_str().to_owned()).collect()
        };
        let servers = self.mcp.iter();
        let servers =
            servers.map(|(name, server)| (format!("mcp.{}", name.as_str()), names(&server.env)));
        let tools = self.tools.iter();
        let tools = tools.map(|(id, change)| (format!("tools.{id}"), names(&change.env)));
        servers.chain(tools).collect()
    }

    /// The secrets that tools may have as they are.
    pub fn granted_secrets(&self) -> BTreeMap<ToolId, BTreeMap<String, Sensitive<String>>> {
        let tools = self.tools.iter().filter_map(|(id, change)| {
            let names = change.secrets.iter().flatten();
            let granted: BTreeMap<String, Sensitive<String>> = names
                .filter_map(|name| {
                    let value = self.secrets.get(name)?.value.as_ref()?;
                    Some((name.as_str().to_owned(), value.sensitive()))
                })
                .collect();
            (!granted.is_empty()).then(|| (id.clone(), granted))
        });
        tools.collect()
    }

    /// The connections whose access tokens tools may have as they are.
    pub fn granted_connections(&self) -> BTreeMap<ToolId, BTreeSet<String>> {
        let tools = self.tools.iter().filter_map(|(id, change)| {
            let names = change.connections.iter().flatten();
            let names = names.filter(|name| self.connections.contains_key(name));
            let granted: BTreeSet<String> = names.map(|name| name.as_str().to_owned()).collect();
            (!granted.is_empty()).then(|| (id.clone(), granted))
        });
        tools.collect()
    }

    /// Secrets that no log shows.
    pub fn unlogged(&self) -> Vec<Sensitive<String>> {
        let keys = [
            &self.provider.api_key,
            &self.text.api_key,
            &self.knowledge.embedder_key,
            &self.escalation.webhook_secret,
            &self.tasks.webhook_secret,
            &self.images.api_key,
            &self.search.api_key,
            &self.calendar.google.client_secret,
            &self.calendar.google.refresh_token,
            &self.calendar.zoom.client_secret,
        ];
        let keys = keys.into_iter().flatten();
        let secrets = self.secrets.values();
        let connections = self.connections.values();
        keys.chain(secrets.filter_map(|secret| secret.value.as_ref()))
            .chain(connections.filter_map(|connection| connection.client_secret.as_ref()))
            .map(Secret::sensitive)
            .collect()
    }
}

impl Handlers {
    pub fn places(&self) -> Places {
        Places::listed(self.allow_fetch.iter().map(FetchPlace::get))
    }

    pub fn fetch_limits(&self) -> FetchLimits {
        FetchLimits {
            timeout: Duration::from_secs(self.fetch_seconds.get()),
            body_bytes_max: self.fetch_bytes_max.count(),
            proxy_resolves_names: self.proxy_resolves_names,
        }
    }

    pub fn worker_limits(&self) -> WorkerLimits {
        WorkerLimits {
            line_bytes_max: self.worker_line_bytes_max.count(),
            stuck_after: Duration::from_millis(self.worker_stuck_ms.get()),
            ..WorkerLimits::default()
        }
    }
}

impl McpServer {
    /// Else the key that makes no sense beside the others, and why.
    pub(super) fn check(&self) -> Result<(), (Vec<String>, &'static str)> {
        let header = self.headers.iter().flat_map(BTreeMap::keys).next();
        let of_address = [
            self.bearer.as_ref().map(|_| vec!["bearer"]),
            self.connection.as_ref().map(|_| vec!["connection"]),
            header.map(|header| vec!["headers", header.as_str()]),
        ];
        let of_program = [
            self.folder.as_ref().map(|_| vec!["folder"]),
            self.env.as_ref().map(|_| vec!["env"]),
            self.secrets.as_ref().map(|_| vec!["secrets"]),
        ];
        let of_both = [
            self.start_seconds.map(|_| vec!["start_seconds"]),
            self.recheck_seconds.map(|_| vec!["recheck_seconds"]),
            self.concurrency.map(|_| vec!["concurrency"]),
            self.message_bytes_max.map(|_| vec!["message_bytes_max"]),
        ];
        let names_program = |command: &Vec<Argument>| {
            let first = command.first();
            first.is_some_and(|first| !first.as_str().is_empty())
        };
        let (key, cause) = match (&self.url, &self.command) {
            (Some(_), Some(_)) => (
                Some(vec!["command"]),
                "is of no use beside url; leave one of the two out",
            ),
            (None, Some(command)) if !names_program(command) => (
                Some(vec!["command"]),
                "names no program; write it and its arguments, as in [\"npx\", \"-y\", \"some-server\"]",
            ),
            (Some(_), None) => (
                of_program.into_iter().flatten().next(),
                "is for a server that is a program; leave it out beside url",
            ),
            (None, Some(_)) => (
                of_address.into_iter().flatten().next(),
                "is for a server with a url; a program is given secrets by `secrets`",
            ),
            (None, None) => (
                of_both
                    .into_iter()
                    .chain(of_address)
                    .chain(of_program)
                    .flatten()
                    .next(),
                "is of no use without a server; write url or command beside it",
            ),
        };
        match key {
            Some(key) => Err((key.into_iter().map(str::to_owned).collect(), cause)),
            None => Ok(()),
        }
    }

    fn settings(&self, config: &Config) -> McpSettings {
        let names = |names: &Option<BTreeSet<SecretName>>| {
            let names = names.iter().flatten();
            names.map(|name| name.as_str().to_owned()).collect()
        };
        let place = match &self.url {
            Some(url) => McpPlace::Address(McpAddress {
                url: url.as_str().to_owned(),
                bearer: self.bearer.as_ref().map(|name| name.as_str().to_owned()),
                connection: self
                    .connection
                    .as_ref()
                    .map(|name| name.as_str().to_owned()),
                headers: self
                    .headers
                    .iter()
                    .flatten()
                    .map(|(header, name)| (header.as_str().to_owned(), name.as_str().to_owned()))
                    .collect(),
                fetch: config.handlers.fetch_limits(),
            }),
            None => McpPlace::Program(McpProgram {
                command: self
                    .command
                    .iter()
                    .flatten()
                    .map(|part| part.as_str().to_owned())
                    .collect(),
                folder: self.folder.as_ref().map(|folder| folder.to_path_buf()),
                variables: self
                    .env
                    .iter()
                    .flatten()
                    .map(|name| name.as_str().to_owned())
                    .collect(),
                secrets: names(&self.secrets),
            }),
        };
        let defaults = McpLimits::default();
        McpSettings {
            place,
            limits: McpLimits {
                start: self
                    .start_seconds
                    .map_or(defaults.start, |seconds| Duration::from_secs(seconds.get())),
                recheck: self.recheck_seconds.map_or(defaults.recheck, |seconds| {
                    Duration::from_secs(seconds.get())
                }),
                concurrency: self.concurrency.map_or(defaults.concurrency, Whole::count),
                message_bytes_max: self
                    .message_bytes_max
                    .map_or(defaults.message_bytes_max, Whole::count),
                ..defaults
            },
        }
    }
}

impl Connection {
    /// Else the key that is missing or makes no sense beside the others, and why.
    pub(super) fn check(&self) -> Result<(), (&'static str, &'static str)> {
        let addresses = [
            self.authorization_url.as_ref().map(|_| "authorization_url"),
            self.token_url.as_ref().map(|_| "token_url"),
        ];
        let others = [
            self.revocation_url.as_ref().map(|_| "revocation_url"),
            self.title.as_ref().map(|_| "title"),
            self.client_id.as_ref().map(|_| "client_id"),
            self.client_secret.as_ref().map(|_| "client_secret"),
            self.scopes.as_ref().map(|_| "scopes"),
            self.resource.as_ref().map(|_| "resource"),
            self.hosts.as_ref().map(|_| "hosts"),
            self.page_origin.as_ref().map(|_| "page_origin"),
            self.any_browser.map(|_| "any_browser"),
            self.answer_seconds.map(|_| "answer_seconds"),
            self.answer_bytes_max.map(|_| "answer_bytes_max"),
        ];
        let issuer = self.issuer.as_ref().map(|_| "issuer");
        let first = |keys: &[Option<&'static str>]| keys.iter().flatten().next().copied();
        let (key, cause) = match (issuer, addresses) {
            (None, [Some(key), None] | [None, Some(key)]) => (
                Some(key),
                "is one of two addresses that are needed; write authorization_url and token_url, or issuer",
            ),
            (None, [None, None]) => (
                first(&others),
                "is of no use without an authorization server; write issuer, or authorization_url and token_url, beside it",
            ),
            (Some(_), _) | (None, [Some(_), Some(_)]) if self.client_id.is_none() => (
                issuer.or(first(&addresses)),
                "is of no use without client_id, which the authorization server gives to programs; write it beside it",
            ),
            (Some(_), _) | (None, [Some(_), Some(_)]) => (None, ""),
        };
        match key {
            Some(key) => Err((key, cause)),
            None => Ok(()),
        }
    }

    /// The hosts that its tokens may be sent to, as `host` or `host:port`.
    pub fn host_names(&self) -> BTreeSet<String> {
        let hosts = self.hosts.iter().flatten();
        hosts.map(|host| host.as_str().to_owned()).collect()
    }
}

impl Provider {
    /// Whether `api_key_env` names a variable that holds nothing, and the key is nowhere else.
    pub fn names_empty_variable(&self) -> bool {
        self.api_key_env.is_some() && self.api_key.is_none()
    }
}

impl ModelChange {
    pub fn profile_change(&self) -> ProfileChange {
        ProfileChange {
            like: self.like.as_ref().map(|row| row.as_str().to_owned()),
            calls: self.calls,
            hold_microphone: self.hold_microphone,
            thinking: self.thinking,
            vision: self.vision,
            context_tokens_max: self.context_tokens_max.map(Whole::get),
            thought_tags: self.thought_tags,
            temperature: self.temperature,
            transport: self.transport,
        }
    }
}

impl ToolChange {
    pub(super) fn tightening(&self) -> Tightening {
        Tightening {
            requires_confirmation: self.requires_confirmation,
            remember: self.remember,
            allowed_modes: self.allowed_modes.clone(),
            timeout_ms: self.timeout_ms.map(Whole::get),
            rate_limit: self.rate_limit.as_ref().map(|limit| RateLimit {
                calls: limit.calls.narrow(),
                window_ms: limit.window_ms.get(),
            }),
            requires_auth: self.requires_auth,
            roles: roles(self.roles.as_ref()),
            approver_roles: roles(self.approver_roles.as_ref()),
            versions: BTreeMap::new(),
        }
    }

    /// A version that has its number for the second time, and one of its keys.
    pub(super) fn second_of_number(&self) -> Option<(&VersionName, &'static str)> {
        let mut known = BTreeSet::new();
        let mut versions = self.versions.iter().flatten();
        let (name, change) = versions.find(|(name, _)| !known.insert(name.get()))?;
        let key = match change {
            VersionChange { users: Some(_), .. } => "users",
            VersionChange { roles: Some(_), .. } => "roles",
            VersionChange {
                tenants: Some(_), ..
            } => "tenants",
            VersionChange { .. } => "percent",
        };
        Some((name, key))
    }

    /// `None` where nothing speaks of versions.
    pub(super) fn rollout(&self) -> Option<Rollout> {
        let texts = |named: &Option<BTreeSet<Words>>| {
            let named = named.iter().flatten();
            named.map(|text| text.as_str().to_owned()).collect()
        };
        let versions = self.versions.iter().flatten();
        let versions = versions.map(|(name, change)| {
            let recipients = Recipients {
                users: texts(&change.users),
                tenants: texts(&change.tenants),
                roles: roles(change.roles.as_ref()).unwrap_or_default(),
                percent: change
                    .percent
                    .map_or(0, |percent| u8::try_from(percent.get()).unwrap_or(0)),
            };
            (name.get().clone(), recipients)
        });
        let rollout = Rollout {
            version: self.version.clone(),
            versions: versions.collect(),
        };
        (rollout != Rollout::default()).then_some(rollout)
    }
}

fn roles(named: Option<&BTreeSet<RoleName>>) -> Option<BTreeSet<Role>> {
    named.map(|named| named.iter().map(|role| role.get().clone()).collect())
}

impl Store {
    pub fn limits(&self, shares: &Shares, tasks: &Tasks) -> StoreLimits {
        const HOUR_MS: u64 = 60 * 60 * 1_000;
        StoreLimits {
            effect_ms: self.effect_hours.get() * HOUR_MS,
            task_ms: tasks.keep_days.get() * 24 * HOUR_MS,
            tasks: TaskShares {
                user_max: tasks.running_of_user_max.count(),
                tenant_max: tasks.running_of_tenant_max.count(),
            },
            effects_max: self.effects_max.count(),
            receipt_bytes_max: self.receipt_bytes_max.count(),
            questions_max: self.questions_max.count(),
            standing_max: self.standing_approvals_max.count(),
            question_bytes_max: self.question_bytes_max.count(),
            conversation_ms: self.conversation_hours.get() * HOUR_MS,
            shares: shares.conversations(),
            entries_max: self.entries_max.count(),
            entry_bytes_max: self.entry_bytes_max.count(),
            leg_bytes_max: self.leg_bytes_max.count(),
            landing_ms: self.landing_ms.get(),
        }
    }
}
