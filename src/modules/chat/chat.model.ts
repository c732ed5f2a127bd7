import { model } from '#src/adapters/postgres/base-model.ts';
import {
  bigint,
  boolean,
  double,
  integer,
  json,
  numeric,
  type Row,
  text,
  textArray,
  timestamp,
  uuid,
  uuidArray,
} from '#src/adapters/postgres/columns.ts';
import { pick, shape } from '#src/adapters/postgres/shapes.ts';
import type { Visibility } from '#src/domain/access/visibility.ts';
import type { AlignmentEvent } from '#src/domain/alignment/events.ts';
import type { EchoState, FoldState } from '#src/domain/alignment/fold.ts';
import type { Refusal, RefusalKind } from '#src/domain/alignment/refusal.ts';
import type { RerankerType } from '#src/domain/documents/rag-config.ts';
import { AgentModel } from '#src/modules/agents/agents.model.ts';

export class ChatModel extends model('chats', {
  id: uuid(),
  orgId: uuid(),
  agentId: uuid(),
  title: text(),
  titleSource: text<'message' | 'generated' | 'user'>(),
  visibility: text<Visibility>(),
  teamIds: uuidArray(),
  acl: textArray(),
  roundCount: integer(),
  /** The newest folded round; 0 before the first. */
  echoRound: integer(),
  echoState: text<EchoState>(),
  ewma: double(),
  alignmentScore: double(),
  inputTokens: bigint(),
  completionTokens: bigint(),
  /** Of the newest complete round. */
  latencyMs: integer(),
  ragEnabled: boolean(),
  ragReranking: boolean().nullable(),
  ragRerankingType: text<RerankerType>().nullable(),
  ragIncludeDocumentIds: uuidArray().nullable(),
  ragExcludeDocumentIds: uuidArray().nullable(),
  createdBy: uuid(),
  createdAt: timestamp(),
  updatedAt: timestamp(),
  rescoringWantedAt: timestamp().nullable(),
  rescoredTo: integer(),
  version: integer(),
}) {}

export class RoundModel extends model(
  'rounds',
  {
    orgId: uuid(),
    chatId: uuid(),
    round: integer(),
    status: text<'open' | 'complete' | 'error'>(),
    userContent: text(),
    assistantReply: text().nullable(),
    model: text(),
    citations: json<Citation[]>(),
    answerEvents: json<AlignmentEvent[]>(),
    idempotencyKey: text().nullable(),
    inputTokens: integer(),
    cachedInputTokens: integer(),
    completionTokens: integer(),
    costUsd: numeric(),
    latencyMs: integer().nullable(),
    errorCode: text().nullable(),
    leaseOwner: text().nullable(),
    leaseExpiresAt: timestamp().nullable(),
    pruned: boolean(),
    startedAt: timestamp(),
    finishedAt: timestamp().nullable(),
    scoredAt: timestamp().nullable(),
    scorerVersion: text().nullable(),
    userScore: double().nullable(),
    agentScore: double().nullable(),
    neutral: boolean().nullable(),
    refusalKind: text<RefusalKind>().nullable(),
    alignmentScore: double().nullable(),
    ewma: double().nullable(),
    echoState: text<EchoState>().nullable(),
    foldState: json<FoldState>().nullable(),
    events: json<AlignmentEvent[]>(),
    /** Names the events of the newest attempt to answer; null for rounds of before there were any. */
    streamId: uuid().nullable(),
    /** How often its message was sent again after a failure. */
    attempt: integer(),
    /** The number of its last event; null while it is open, and for one whose process died. */
    lastSeq: bigint().nullable(),
    /** When a reader who came back last read on; kept where answers end with their readers. */
    followedAt: timestamp().nullable(),
    priceVersion: text().nullable(),
    toolCalls: json<ToolCallRecord[]>(),
    scoreSource: text<'embedding' | 'words' | 'llm'>().nullable(),
    refusalReading: json<Refusal>().nullable(),
  },
  ['chatId', 'round'],
) {}

export class RoundEventModel extends model(
  'round_events',
  {
    orgId: uuid(),
    streamId: uuid(),
    firstSeq: bigint(),
    lastSeq: bigint(),
    chatId: uuid(),
    events: text(),
    createdAt: timestamp(),
  },
  ['streamId', 'firstSeq'],
) {}

/** Where the documents of a chat come from; the newest message's settings. Null: the settings of the documents decide. */
const ragSettings = pick(
  ChatModel,
  'ragEnabled',
  'ragReranking',
  'ragRerankingType',
  'ragIncludeDocumentIds',
  'ragExcludeDocumentIds',
);
export type RagSettings = Row<typeof ragSettings>;

export type Chat = Row<typeof ChatModel>;

/** What a chat starts with; the rest has defaults. */
export type NewChat = RagSettings &
  Pick<Chat, 'id' | 'orgId' | 'agentId' | 'title' | 'titleSource' | 'visibility' | 'teamIds' | 'acl' | 'createdBy'>;

/** A chat as lists show it: does any complete round wait for its scores? */
export const chatSummary = shape({ ...ChatModel.columns, scoringPending: boolean() });
export type ChatSummary = Row<typeof chatSummary>;

/** One call of a tool, as it is stored and shown. */
export type ToolCallRecord = {
  /** Unique in its round. */
  id: string;
  /** Of a function that there is not, what the model called it. */
  tool: string;
  /** The text as it came, cut, where it is not what the tool takes. */
  arguments: Record<string, unknown> | string;
  /** `refused`: it was not made. */
  status: 'ok' | 'error' | 'timeout' | 'refused';
  errorCode: string | null;
  startedAt: string;
  durationMs: number;
  /** Its beginning, without what nobody sees; of passages their numbers alone, as not everybody may read them. */
  resultPreview: string;
  /** Of the whole, also where the model got less. */
  resultCharacters: number;
};

export type Citation = { chunkId: string; documentId: string };

export type Round = Row<typeof RoundModel>;

export type RoundKey = { chatId: string; round: number };

/** What goes out of an answer: its text in pieces, then how it ended. */
export type RoundEvent =
  | { event: 'token'; text: string }
  | { event: 'done'; answer: ChatAnswer }
  | { event: 'error'; code: string; detail: string };

/** Numbers rise within an attempt, and never come again in its round. */
export type NumberedEvent = RoundEvent & { seq: number };

export const isLast = ({ event }: RoundEvent): boolean => event !== 'token';

/** The number before the first one of an attempt: no answer has as many events as there are between two of them. */
export const seqBefore = (attempt: number): number => attempt * 10_000_000;

/**
 * The number of the event by which an attempt fails, whoever has to say so: behind all that any reader of it has got,
 * also of what was never stored.
 */
export const failureSeq = (attempt: number): number => seqBefore(attempt + 1);

export type CompletedAnswer = {
  assistantReply: string;
  citations: Citation[];
  toolCalls: ToolCallRecord[];
  answerEvents: AlignmentEvent[];
  inputTokens: number;
  cachedInputTokens: number;
  completionTokens: number;
  costUsd: number;
  /** Of the price table; null for a model without a price, which counts as free. */
  priceVersion: string | null;
  latencyMs: number;
};

/** What a chat needs to know of its agent. */
export const chatAgent = pick(
  AgentModel,
  'id',
  'orgId',
  'acl',
  'agentName',
  'agentPrompt',
  'chatModel',
  'temperature',
  'maxTokens',
  'anchorWords',
  'enabledTools',
  'deletedAt',
);
export type ChatAgent = Row<typeof chatAgent>;

/** The newest folded state of a chat, as it goes out with an answer. */
export type Echo = { state: EchoState; ewma: number; alignmentScore: number; round: number; events: AlignmentEvent[] };

/** A finished answer with everything that its response shows. */
export type ChatAnswer = {
  chatId: string;
  round: number;
  reply: string;
  model: string;
  title: string;
  citations: Citation[];
  toolCalls: ToolCallRecord[];
  echo: Echo;
};

export type ChatHistory = { chat: ChatSummary; rounds: Round[]; agentName: string; isAgentDeleted: boolean };
