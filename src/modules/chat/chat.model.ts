import { tableModel } from '#src/adapters/postgres/base-model.ts';
import {
  bigintColumn,
  booleanColumn,
  defineRowShape,
  doubleColumn,
  integerColumn,
  jsonColumn,
  numericColumn,
  pickColumns,
  type SqlRow,
  textArrayColumn,
  textColumn,
  timestampColumn,
  uuidArrayColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { Visibility } from '#src/domain/access/visibility.ts';
import type { ToolCallRecord } from '#src/domain/agents/tools.ts';
import type { AlignmentState, EchoState } from '#src/domain/alignment/chat-state.ts';
import type { AlignmentEvent } from '#src/domain/alignment/events.ts';
import type { Refusal, RefusalKind } from '#src/domain/alignment/refusal.ts';
import type { RerankerType } from '#src/domain/documents/rag-config.ts';
import { AgentModel } from '#src/modules/agents/agents.model.ts';
import { DraftModel, DraftVersionModel } from '#src/modules/drafts/drafts.model.ts';

export class ChatModel extends tableModel('chats', {
  id: uuidColumn(),
  orgId: uuidColumn(),
  /** The agent, or in a chat with a draft version the draft. */
  agentId: uuidColumn(),
  title: textColumn(),
  titleSource: textColumn<'message' | 'generated' | 'user'>(),
  visibility: textColumn<Visibility>(),
  teamIds: uuidArrayColumn(),
  acl: textArrayColumn(),
  roundCount: integerColumn(),
  /** Number of the scored round whose alignment state the chat shows; 0 before the first. */
  echoRound: integerColumn(),
  echoState: textColumn<EchoState>(),
  ewma: doubleColumn(),
  alignmentScore: doubleColumn(),
  inputTokens: bigintColumn(),
  completionTokens: bigintColumn(),
  latencyMs: integerColumn(),
  ragEnabled: booleanColumn(),
  ragReranking: booleanColumn().nullable(),
  ragRerankingType: textColumn<RerankerType>().nullable(),
  ragIncludeDocumentIds: uuidArrayColumn().nullable(),
  ragExcludeDocumentIds: uuidArrayColumn().nullable(),
  createdBy: uuidColumn(),
  createdAt: timestampColumn(),
  updatedAt: timestampColumn(),
  rescoringWantedAt: timestampColumn().nullable(),
  rescoredTo: integerColumn(),
  version: integerColumn(),
  /** Null in a chat with an agent. A chat with a draft version is personal, is not scored and counts in no statistics. */
  draftVersionId: uuidColumn().nullable(),
  publishedAgentId: uuidColumn().nullable(),
}) {}

export class RoundModel extends tableModel(
  'rounds',
  {
    orgId: uuidColumn(),
    chatId: uuidColumn(),
    round: integerColumn(),
    status: textColumn<'open' | 'complete' | 'error'>(),
    userContent: textColumn(),
    assistantReply: textColumn().nullable(),
    model: textColumn(),
    citations: jsonColumn<Citation[]>(),
    answerEvents: jsonColumn<AlignmentEvent[]>(),
    idempotencyKey: textColumn().nullable(),
    inputTokens: integerColumn(),
    cachedInputTokens: integerColumn(),
    completionTokens: integerColumn(),
    costUsd: numericColumn(),
    latencyMs: integerColumn().nullable(),
    errorCode: textColumn().nullable(),
    leaseOwner: textColumn().nullable(),
    leaseExpiresAt: timestampColumn().nullable(),
    pruned: booleanColumn(),
    startedAt: timestampColumn(),
    finishedAt: timestampColumn().nullable(),
    scoredAt: timestampColumn().nullable(),
    scorerVersion: textColumn().nullable(),
    userScore: doubleColumn().nullable(),
    agentScore: doubleColumn().nullable(),
    neutral: booleanColumn().nullable(),
    refusalKind: textColumn<RefusalKind>().nullable(),
    alignmentScore: doubleColumn().nullable(),
    ewma: doubleColumn().nullable(),
    echoState: textColumn<EchoState>().nullable(),
    foldState: jsonColumn<AlignmentState>().nullable(),
    events: jsonColumn<AlignmentEvent[]>(),
    /** Id of the event stream of the newest attempt to answer; null in rounds older than this column. */
    streamId: uuidColumn().nullable(),
    /** Number of times that the user sent the message again after the round failed. */
    attempt: integerColumn(),
    /** Sequence number of the round's last event; null while the round is open or if its process died. */
    lastSeq: bigintColumn().nullable(),
    /** Last time that a reconnected client was reading the answer; written only with `STREAM_ON_DISCONNECT=cancel`. */
    followedAt: timestampColumn().nullable(),
    priceVersion: textColumn().nullable(),
    toolCalls: jsonColumn<ToolCallRecord[]>(),
    scoreSource: textColumn<'embedding' | 'words' | 'llm'>().nullable(),
    refusalReading: jsonColumn<Refusal>().nullable(),
  },
  ['chatId', 'round'],
) {}

export class RoundEventModel extends tableModel(
  'round_events',
  {
    orgId: uuidColumn(),
    streamId: uuidColumn(),
    firstSeq: bigintColumn(),
    lastSeq: bigintColumn(),
    chatId: uuidColumn(),
    events: textColumn(),
    createdAt: timestampColumn(),
  },
  ['streamId', 'firstSeq'],
) {}

/**
 * Retrieval settings of the chat's newest message. A null setting leaves the choice to each document's own setting.
 */
const ragSettings = pickColumns(
  ChatModel,
  'ragEnabled',
  'ragReranking',
  'ragRerankingType',
  'ragIncludeDocumentIds',
  'ragExcludeDocumentIds',
);
export type RagSettings = SqlRow<typeof ragSettings>;

export function retrievalSettings(chat: RagSettings, agent: Pick<ChatAgent, 'documentScope'>) {
  return {
    reranking: { isEnabled: chat.ragReranking, type: chat.ragRerankingType },
    scope: agent.documentScope,
    includeDocumentIds: chat.ragIncludeDocumentIds ?? undefined,
    excludeDocumentIds: chat.ragExcludeDocumentIds ?? undefined,
  };
}

export type Chat = SqlRow<typeof ChatModel>;

export type NewChat = RagSettings &
  Pick<
    Chat,
    | 'id'
    | 'orgId'
    | 'agentId'
    | 'draftVersionId'
    | 'title'
    | 'titleSource'
    | 'visibility'
    | 'teamIds'
    | 'acl'
    | 'createdBy'
  >;

export const chatSummaryRowShape = defineRowShape({ ...ChatModel.columns, scoringPending: booleanColumn() });
export type ChatSummary = SqlRow<typeof chatSummaryRowShape>;

/** Where the document says what the reply states. */
type CitedPlace = {
  documentName: string;
  /** Page of the quoted place, which can be a later page than that of the beginning of its chunk. */
  pageNumber: number;
  /** Offset of the quote in the document's text, in UTF-16 code units. */
  contentOffset: number;
  /** Heading of the section in which the quote stands; null without one, missing in answers of older releases. */
  heading?: string | null;
  quote: string;
};

/** A citation has no place if its chunk was replaced while the answer was written, or if an older release stored it. */
export type Citation = { chunkId: string; documentId: string } & Partial<CitedPlace>;

export type Round = SqlRow<typeof RoundModel>;

export type RoundKey = { chatId: string; round: number };

export type RoundStreamKey = RoundKey & { streamId: string };

export type RoundEvent =
  | { event: 'token'; text: string }
  | { event: 'done'; answer: ChatAnswer }
  | { event: 'error'; code: string; detail: string };

export type NumberedRoundEvent = RoundEvent & { seq: number };

export const isLastRoundEvent = ({ event }: RoundEvent): boolean => event !== 'token';

/**
 * Sequence number that precedes an attempt's first event. Each attempt has ten million numbers, more than any answer
 * needs.
 */
export const eventSeqBeforeAttempt = (attempt: number): number => attempt * 10_000_000;

/**
 * Sequence number of an attempt's `error` event: the same in every process, and higher than that of all other events of
 * the attempt.
 */
export const errorEventSeq = (attempt: number): number => eventSeqBeforeAttempt(attempt + 1);

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

export const chatAgentRowShape = pickColumns(
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
  'documentScope',
  'deletedAt',
);
export type StoredChatAgent = SqlRow<typeof chatAgentRowShape>;

/** `chatModel` is the model that answers: the agent's own, or the default that it follows. */
export type ChatAgent = Omit<StoredChatAgent, 'chatModel'> & { chatModel: string };

/** A draft version with the owner and the readers of its draft. `id` is that of the draft. */
export const chatDraftVersionRowShape = defineRowShape({
  ...pickColumns(DraftModel, 'id', 'orgId', 'acl', 'createdBy').columns,
  ...pickColumns(DraftVersionModel, 'agentName', 'agentPrompt', 'chatModel', 'temperature', 'maxTokens').columns,
  ...pickColumns(DraftVersionModel, 'anchorWords', 'enabledTools').columns,
});
export type ChatDraftVersion = SqlRow<typeof chatDraftVersionRowShape>;

export type Echo = { state: EchoState; ewma: number; alignmentScore: number; round: number; events: AlignmentEvent[] };

/** The alignment state that a chat shows, with the events of its round if that is among the given ones. */
export function echoOfChat(chat: Chat, rounds: readonly Round[]): Echo {
  const { echoState: state, ewma, alignmentScore, echoRound } = chat;
  const scored = rounds.find(({ round }) => round === echoRound);
  const events = scored === undefined ? [] : [...scored.answerEvents, ...scored.events];
  return { state, ewma, alignmentScore, round: echoRound, events };
}

export type ChatAnswer = {
  chatId: string;
  round: number;
  reply: string;
  model: string;
  title: string;
  citations: Citation[];
  toolCalls: ToolCallRecord[];
  echo: Echo;
  /** The answer of a draft version, which is not scored. */
  isDraft: boolean;
};

export type ChatHistory = { chat: ChatSummary; rounds: Round[]; agentName: string; isAgentDeleted: boolean };
