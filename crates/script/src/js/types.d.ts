// What a handler finds around it. Put this file beside your tools; editors read it, and nothing else does.

type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

type ErrorCode =
  | 'VALIDATION' | 'NOT_FOUND' | 'SESSION_INACTIVE' | 'SESSION_ACTIVE' | 'TRANSIENT' | 'PERMANENT' | 'RATE_LIMIT' | 'AUTH'
  | 'CONFLICT' | 'INTERNAL';

interface ToolErrorOptions {
  retryable?: boolean;
  /** Whether something may have happened before it failed. Say `false` where nothing can have. */
  partialSideEffects?: boolean;
  idempotencyRequired?: boolean;
  retryAfterMs?: number;
  /** Seconds; `retryAfterMs` counts where both are there. */
  retryAfter?: number;
  maxRetries?: number;
  /** What the model may do about it. */
  suggestion?: string;
  details?: Json;
}

type Intent =
  | { type: 'END_VOICE_SESSION'; after?: 'current_turn' | 'farewell_spoken' | 'immediate'; reason?: string; closingMessage?: string; textResponse?: string }
  | { type: 'SUPPRESS_AUDIO'; value?: boolean }
  | { type: 'SUPPRESS_TRANSCRIPT'; value?: boolean }
  | { type: 'SET_PENDING_MESSAGE'; message: string }
  /** A value under `state` of a schema.json; `null` takes it away. */
  | { type: 'SET_STATE'; key: string; value: unknown };

/** What `execute` returns. */
type ToolResponse =
  | { ok: true; data?: unknown; content?: ContentPart[]; intents?: Intent[]; scheduling?: 'interrupt' | 'when_idle' | 'silent' }
  | { ok: false; error: { type: ErrorCode; message: string } & ToolErrorOptions; intents?: Intent[] };

/** A picture: its address, or its bytes in base64. */
type ContentPart = { type: 'image'; mimeType: string } & ({ url: string } | { data: string });

/** What `execute` is given: `execute({ args, context })` and `execute(context)` are the same. */
interface Invocation<Arguments = any> {
  args: Arguments;
  context: Context<Arguments>;
}

interface Context<Arguments = any> extends Invocation<Arguments> {
  readonly clientId: string;
  readonly sessionId: string;
  readonly userId: string;
  readonly conversationId: string;
  readonly mode: 'voice' | 'text';
  readonly turn: number;
  readonly tool: { readonly id: string; readonly version: string; readonly idempotent: boolean };
  readonly session: {
    readonly isActive: boolean;
    readonly toolsVersion: string;
    readonly state: {
      readonly isModelGenerating: boolean;
      readonly pendingEndVoiceSession: boolean;
      /** What handlers keep for the conversation, as it was when the call began; left out where that is nothing. */
      readonly values?: { readonly [key: string]: Json };
    };
  };
  /** What handlers keep for the conversation: `session.state.values`, or `{}`. The intent SET_STATE changes it. */
  getState(): { readonly [key: string]: Json };
  readonly capabilities: { readonly voice: boolean; readonly messaging: boolean };
  /** Of a tool that writes: the same for every attempt at the same change. */
  readonly effectId?: string;
  /** Milliseconds since 1970 after which nobody waits for the answer. */
  readonly deadline: number;
  /** Where the user is: the name of their zone, `null` where nobody has said it; and date and hour there, or the server's. */
  readonly time: { readonly zone: string | null; readonly now: string };
  /** Aborted when the call is taken back. */
  readonly signal: AbortSignal;
  readonly voice: { isActive(): boolean };
  readonly messaging: { send(message: { type: string; [name: string]: unknown }): Promise<void> };
  readonly audit: { log(event: string, data?: unknown): void };
  readonly events: { emit(name: string, payload?: unknown): void };
  readonly kb: { search(query: SearchQuery | string): Promise<SearchResult[]>; get(id: string): Promise<KnowledgeRecord | null> };
  readonly calendar: {
    getFreeBusy(query: object): Promise<any>;
    getEvents(query: object): Promise<any>;
    createEvent(event: object): Promise<any>;
  };
  readonly images: { generate(request: object): Promise<any> };
  /** Serves the user of this session no more until a time, in milliseconds since 1970. */
  readonly blocks: { add(block: { until: number; farewellMessage?: string }): Promise<void> };
  readonly http: { fetch(url: string | URL, init?: FetchInit): Promise<Response> };
  /** A secret that `tools.NAME.secrets` of the configuration grants this tool. */
  secret(name: string): Promise<string>;
  /** An access token of this user's, for a connection that `tools.NAME.connections` of the configuration grants this tool. */
  connection(name: string): Promise<string>;
  progress(message: string, fraction?: number): void;
  /** Shows the user a piece of what the call is going to bring. `yield` of a generator does the same. The model reads the result alone. */
  output(piece: unknown): void;
  callTool(id: string, args?: object): Promise<ToolResponse & { meta: object }>;
}

interface SearchQuery {
  query: string;
  namespace?: string;
  filters?: { type?: string; tags?: string[]; date_range?: { start?: string; end?: string } };
  topK?: number;
  includeSnippets?: boolean;
}

interface SearchResult {
  id: string;
  type: string;
  title: string;
  score: number;
  snippet?: string;
  sourceType: string;
  lastUpdated?: string;
  url?: string;
  metadata: { [name: string]: Json };
}

interface KnowledgeRecord {
  id: string;
  namespace: string;
  type: string;
  title: string;
  body: string;
  tags: string[];
  url?: string;
  sourceType: string;
  lastUpdated?: string;
  metadata: { [name: string]: Json };
}

interface FetchInit {
  method?: string;
  headers?: { [name: string]: string } | Headers;
  body?: string | URLSearchParams | ArrayBuffer | ArrayBufferView;
  signal?: AbortSignal;
}

declare module '*/error-types.js' {
  export const ErrorType: { readonly [Code in ErrorCode]: Code };
  export const IntentType: { readonly [Type in Intent['type']]: Type };
  export class ToolError extends Error {
    constructor(type: ErrorCode, message: string, options?: ToolErrorOptions);
    readonly type: ErrorCode;
  }
}
