// Owns the types of the package, written by hand. tests/sdk/client.test.mjs compiles programs against them.

export interface ServerOptions {
  /** Where the server is, `https://agent.example.com/`. The page's own address where none is given. */
  url?: string | URL;
  /** Where callers have to sign in: brings a ticket for each request, from your own server. */
  ticket?: () => string | Promise<string>;
  /** Reads JSON in place of `JSON.parse`. */
  parse?: (text: string) => any;
}

/** Where a server is, and how this client shows itself there. One may serve several of the classes below. */
export declare class Server {
  constructor(options?: ServerOptions);
}

export type PartOptions = ServerOptions & { server?: Server };

/** The server did not take a request. */
export declare class WindlassError extends Error {
  constructor(message: string, details?: { status?: number; code?: string });
  /** The status of the answer; 0 where there was none. */
  status: number;
  /** The server's code for the reason, such as `unauthorized`; "" where it gave none. */
  code: string;
}

/** `useChat({ transport: new ChatTransport({ url }) })`, for the AI SDK 5 and later. */
export declare class ChatTransport {
  /**
   * `body` goes along with each message: `{ userId: "ada" }`. `resumable`, which is true where it is left out: an answer outlives a
   * reload, and ends where `abortSignal` says so.
   */
  constructor(options?: PartOptions & { body?: Record<string, unknown>; resumable?: boolean });
  sendMessages(options: {
    chatId: string;
    messages: any[];
    trigger?: string;
    messageId?: string;
    abortSignal?: AbortSignal;
    headers?: Record<string, string> | Headers;
    body?: object;
    metadata?: unknown;
  }): Promise<ReadableStream<any>>;
  reconnectToStream(options: {
    chatId: string;
    abortSignal?: AbortSignal;
    headers?: Record<string, string> | Headers;
    body?: object;
    metadata?: unknown;
  }): Promise<ReadableStream<any> | null>;
  /** Stops one call of the conversation; the answer goes on. */
  cancelCall(options: { chatId: string; callId: string }): Promise<CancelOutcome>;
  /** Ends a standing approval; gives those of the conversation that are left. */
  revoke(options: { chatId: string; approvalId: string }): Promise<StandingApproval[]>;
}

export interface ConversationSummary {
  id: string;
  /** null where the user has said nothing. */
  title: string | null;
  createdAt: string;
  updatedAt: string;
}

/** The user's conversations, as the server keeps them. */
export declare class Conversations {
  constructor(options?: PartOptions);
  list(options?: { search?: string; limit?: number; cursor?: string }): Promise<{
    conversations: (ConversationSummary & { messages: number })[];
    next: string | null;
  }>;
  /** `messages` are UI messages of the AI SDK. The first page holds the newest. */
  read(
    id: string,
    options?: { limit?: number; cursor?: string },
  ): Promise<ConversationSummary & { messages: any[]; standingApprovals: StandingApproval[]; next: string | null }>;
  rename(id: string, title: string): Promise<unknown>;
  delete(id: string): Promise<unknown>;
  exportAddress(id: string): string;
}

export interface Start {
  conversationId?: string;
  userId?: string;
  conversationHistory?: { role: "user" | "assistant"; content: string }[];
  /** What is to be answered at once. */
  pendingRequest?: string;
  /** Takes up a session whose connection was lost. */
  resumeToken?: string;
}

export type MicrophoneReason = "insecure" | "denied" | "missing" | "busy" | "unsupported" | "lost";

export interface VoiceState {
  connection: "closed" | "connecting" | "live" | "reconnecting" | "lost" | "taken";
  microphone: "off" | "asking" | "on";
  /** An answer is being made. */
  generating: boolean;
  /** The agent is heard. */
  speaking: boolean;
  sound: boolean;
  turnsCompleted: number;
  interruptions: number;
  framesSent: number;
  framesReceived: number;
  framesPlayed: number;
  framesDropped: number;
}

/** `runs_on`: what the call changes has begun, so that it goes on. */
export type CancelOutcome = "stopped" | "runs_on" | "already_cancelled" | "ended" | "unknown";

/** What the user has approved for all calls with the same values. */
export interface StandingApproval {
  approvalId: string;
  tool: string;
  /** By the JSON pointers of the arguments. */
  arguments: Record<string, unknown>;
  mode: "text" | "voice";
  givenAt: string;
  expiresAt: string;
}

/** What the service of a tool asks the user. The words are the service's own: show them as such, under its name. */
export interface AskedInput {
  from: string;
  asks: ({ key: string; message: string } & ({ form: AskedField[] } | { link: string; host: string }))[];
}

/** A field of a form; `options` of a `choice` and of `choices`. */
export interface AskedField {
  name: string;
  type: "text" | "number" | "integer" | "boolean" | "choice" | "choices";
  required: boolean;
  title?: string;
  description?: string;
  default?: unknown;
  format?: "email" | "uri" | "date" | "date-time";
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  minItems?: number;
  maxItems?: number;
  options?: { value: string; title: string }[];
}

interface CallEvent {
  callId: string;
  tool: string;
  parentCallId?: string;
}

/** What `voice.on` tells of. Most are messages of the voice protocol, under their own names. */
export interface VoiceEvents {
  /** Something of `voice.state` has changed. */
  state: VoiceState;
  connection: { connection: VoiceState["connection"]; isProvider?: boolean };
  /** The next try to reconnect waits; `retryNow()` ends that. */
  retry: { delayMs: number };
  ended: { reason: "stopped" | "lost" | "taken" | "refused" | "server"; text: string };
  /** The answer under way was interrupted. */
  cut_off: {};
  /** The browser lets nothing sound until the user clicks; call `unlock()` then. */
  sound_blocked: {};
  microphone_failed: { reason: MicrophoneReason };
  connected: { clientId: string; timestamp: string };
  started: { sessionId: string; conversationId: string; resumeToken: string; tools: string[] };
  /** Not `final`: the next piece of what is said. `final`: all of it. `isEcho`: words that this client has sent. */
  transcript: {
    role: "user" | "assistant";
    text: string;
    final: boolean;
    isEcho: boolean;
    /** It belongs to an answer that the user has cut off. */
    isLate: boolean;
    citations?: { id?: string; title?: string; url?: string }[];
    images?: { url: string; caption?: string }[];
  };
  /** `isRepeat`: the answer that broke off with the connection begins again. */
  model_generating: { isRepeat: boolean };
  tool_call_started: CallEvent & { args?: Record<string, unknown>; argsOmitted?: boolean; status?: string };
  tool_progress: CallEvent & { message?: string; fraction?: number };
  /** A piece of what a running call is going to bring. A gap in `sequence`: pieces were left out. */
  tool_output: { callId: string; sequence: number; data: any };
  /** What came of `cancelCall`. */
  cancel_result: { callId: string; outcome: CancelOutcome; message: string };
  tool_call_finished: CallEvent & {
    ok: boolean;
    durationMs: number;
    errorType?: string;
    message?: string;
    result?: string;
    args?: Record<string, unknown>;
    /** The account of the user's that the call needs: show the link. */
    connect?: { connection: string; title: string; url: string };
  };
  tools_complete: {};
  /** The agent asks for the user's approval: show it, and `answer(token, approved, reason, { remember })`. */
  confirmation_request: CallEvent & {
    token: string;
    args?: Record<string, unknown>;
    preview?: string | null;
    warning?: string | null;
    /** Why the user is asked about this call, where its tool does not ask about every one. */
    because?: string | null;
    /** What the user can have remembered: ask before you answer with `remember`. */
    remember?: { scope: "session"; arguments: Record<string, unknown>; minutes: number };
    /** What the service of the tool asks, in its own words: show forms and links, and `answer` with `content`. */
    input?: AskedInput;
    expiresAt: string;
  };
  confirmation_result: CallEvent & { ok: boolean; response: any };
  /** The approvals that stand for calls of the session, all of them. */
  standing_approvals: { approvals: StandingApproval[] };
  image: { url: string; caption?: string };
  turn_complete: { turn: number };
  /** The user is blocked until then. */
  timeout: { durationSeconds: number; timeoutUntil: string; farewellMessage?: string };
  /** A person was asked. */
  ticket: { ticketId: string; reason: string; urgency: "low" | "normal" | "high"; status: "open" };
  /** A person has answered. */
  ticket_reply: { ticketId: string; author: string | null; text: string };
  /** The conversation takes over 90 % of the model's window. */
  context_nearly_full: { tokens: number; windowTokens: number };
  error: { code: string; message: string };
  /** What a tool of your own says. */
  message: { type: string; [key: string]: unknown };
}

/** A voice session: connection, microphone, playback, interruption and reconnection. */
export declare class Voice {
  constructor(options?: PartOptions & { state?: object; workletUrl?: string | URL });
  readonly state: VoiceState;
  readonly isRunning: boolean;
  /** How loud the microphone is, 0 to 1. */
  readonly level: number;
  /** How loud the agent is, 0 to 1. */
  readonly voiceLevel: number;
  /** Returns what ends the listening. */
  on<Type extends keyof VoiceEvents>(type: Type, listener: (event: VoiceEvents[Type]) => void): () => void;
  open(start?: Start): void;
  retryNow(): void;
  stop(): void;
  /** Lets sound play; to be called in a click or a key press. */
  unlock(): void;
  useSpeaker(deviceId: string): void;
  useMicrophone(deviceId: string): Promise<void>;
  setSound(on: boolean): void;
  /** To be called in a click. Whether the microphone is on then. */
  startMicrophone(): Promise<boolean>;
  stopMicrophone(): void;
  say(text: string, pictures?: { mimeType: string; data: string }[]): void;
  typed(text: string): void;
  forgetTyped(): void;
  interrupt(): void;
  answer(
    token: string,
    approved: boolean,
    reason?: string,
    options?: { remember?: boolean; content?: Record<string, Record<string, unknown>>; cancelled?: boolean },
  ): void;
  /** Ends a standing approval: the user is asked again. */
  revoke(approvalId: string): void;
  /** Stops one call; the session goes on. `cancel_result` tells what came of it. */
  cancelCall(callId: string): void;
}

/** The session of this tab that a reload may take up again: `voice.open(rememberedSession())`. */
export declare function rememberedSession(): Start | null;

/** Opens the microphone; returns what closes it. Throws an error whose `reason` is a `MicrophoneReason`. */
export declare function openMicrophone(options: {
  onFrame: (pcm: ArrayBuffer, level: number) => void;
  onLost: () => void;
  deviceId?: string;
  workletUrl?: string | URL;
}): Promise<() => void>;

/** Plays frames of PCM, 16 bits, one channel, 24 kHz, without gaps. */
export declare class Playback {
  constructor(options: {
    counters: { framesPlayed: number; framesDropped: number };
    onDone: () => void;
    onChange: () => void;
    onBlocked: () => void;
  });
  readonly isActive: boolean;
  readonly level: number;
  unlock(): void;
  enqueue(pcm: ArrayBuffer): void;
  endTurn(): void;
  stop(): void;
  mute(muted: boolean): void;
  useSpeaker(deviceId: string): void;
  discard(): void;
  accept(): void;
}
