import { model } from '#src/adapters/postgres/base-model.ts';
import {
  bigint,
  boolean,
  double,
  integer,
  json,
  numeric,
  pick,
  type Row,
  shape,
  text,
  textArray,
  timestamp,
  uuid,
  uuidArray,
} from '#src/adapters/postgres/shapes.ts';
import type { Visibility } from '#src/domain/access/visibility.ts';
import type { AlignmentState, EchoState } from '#src/domain/alignment/chat-state.ts';
import type { AlignmentEvent } from '#src/domain/alignment/events.ts';
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
  /** Number of the scored round whose alignment state the chat shows; 0 before the first. */
  echoRound: integer(),
  echoState: text<EchoState>(),
  ewma: double(),
  alignmentScore: double(),
  inputTokens: bigint(),
  completionTokens: bigint(),
  /** Latency of the newest complete round. */
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
    foldState: json<AlignmentState>().nullable(),
    events: json<AlignmentEvent[]>(),
    /** Id of the event stream of the newest attempt to answer; null in rounds older than this column. */
    streamId: uuid().nullable(),
    /** Number of times that the user sent the message again after the round failed. */
    attempt: integer(),
    /** Sequence number of the round's last event; null while the round is open or if its process died. */
    lastSeq: bigint().nullable(),
    /** Last time that a reconnected client was reading the answer; written only with `STREAM_ON_DISCONNECT=cancel`. */
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

/**
 * Retrieval settings of the chat's newest message. A null setting leaves the choice to each document's own setting.
 */
const ragSettings = pick(
  ChatModel,
  'ragEnabled',
  'ragReranking',
  'ragRerankingType',
  'ragIncludeDocumentIds',
  'ragExcludeDocumentIds',
);
export type RagSettings = Row<typeof ragSettings>;

export function retrievalSettings(chat: RagSettings) {
  return {
    reranking: { isEnabled: chat.ragReranking, type: chat.ragRerankingType },
    includeDocumentIds: chat.ragIncludeDocumentIds ?? undefined,
    excludeDocumentIds: chat.ragExcludeDocumentIds ?? undefined,
  };
}

export type Chat = Row<typeof ChatModel>;

export type NewChat = RagSettings &
  Pick<Chat, 'id' | 'orgId' | 'agentId' | 'title' | 'titleSource' | 'visibility' | 'teamIds' | 'acl' | 'createdBy'>;

/** `scoringPending` is true while a complete round of the chat has no scores. */
export const chatSummary = shape({ ...ChatModel.columns, scoringPending: boolean() });
export type ChatSummary = Row<typeof chatSummary>;

export type ToolCallRecord = {
  id: string;
  /** The tool's id; if the model called a tool that does not exist, the name that it used. */
  tool: string;
  /** The parsed arguments; if the call was refused before the tool ran, the model's raw text, truncated. */
  arguments: Record<string, unknown> | string;
  /** `refused` means that the tool was not run. */
  status: 'ok' | 'error' | 'timeout' | 'refused';
  errorCode: string | null;
  startedAt: string;
  durationMs: number;
  /**
   * Beginning of the tool's result. For passages only their count and document ids, because some readers of the chat
   * cannot read the documents.
   */
  resultPreview: string;
  /** Length of the whole result, even if the model received a truncated one. */
  resultCharacters: number;
};

export type Citation = { chunkId: string; documentId: string };

export type Round = Row<typeof RoundModel>;

export type RoundKey = { chatId: string; round: number };

export type StreamKey = RoundKey & { streamId: string };

export type RoundEvent =
  | { event: 'token'; text: string }
  | { event: 'done'; answer: ChatAnswer }
  | { event: 'error'; code: string; detail: string };

/** `seq` increases within an attempt and is unique in the round. */
export type NumberedEvent = RoundEvent & { seq: number };

export const isLastEvent = ({ event }: RoundEvent): boolean => event !== 'token';

/**
 * Sequence number before the first event of an attempt. Each attempt has ten million numbers, more than any answer
 * needs.
 */
export const seqBeforeAttempt = (attempt: number): number => attempt * 10_000_000;

/**
 * Sequence number of an attempt's `error` event: equal in every process, and higher than that of any other event of the
 * attempt, stored or not.
 */
export const errorEventSeq = (attempt: number): number => seqBeforeAttempt(attempt + 1);

export type CompletedAnswer = {
  assistantReply: string;
  citations: Citation[];
  toolCalls: ToolCallRecord[];
  answerEvents: AlignmentEvent[];
  inputTokens: number;
  cachedInputTokens: number;
  completionTokens: number;
  costUsd: number;
  /** Version of the price table that gave the cost; null for a model without a price, which counts as free. */
  priceVersion: string | null;
  latencyMs: number;
};

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

export type Echo = { state: EchoState; ewma: number; alignmentScore: number; round: number; events: AlignmentEvent[] };

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
