import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Knex } from 'knex';
import type { Logger } from 'pino';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import { modelCostUsd } from '#src/domain/agents/prices.ts';
import type { Tool } from '#src/domain/agents/tools.ts';
import { initialAlignmentState } from '#src/domain/alignment/chat-state.ts';
import type { AlignmentEventBody } from '#src/domain/alignment/events.ts';
import { type SteeringInstructions, steeringInstructionsFor } from '#src/domain/alignment/steering.ts';
import type { DroppedCitation } from '#src/domain/chat/citation-markers.ts';
import { removeInvisibleCharacters, type Spotlight } from '#src/domain/chat/context-blocks.ts';
import { createLinkFilter } from '#src/domain/chat/link-filter.ts';
import { extractUrls } from '#src/domain/chat/urls.ts';
import type { TokenCounter } from '#src/domain/text/tokens.ts';
import { appError } from '#src/errors.ts';
import type { ChatScoringQueueService } from '#src/modules/alignment/scoring-requests.service.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { RetrievalDegradation, RetrievalService } from '#src/modules/retrieval/retrieval.service.ts';
import {
  type Chat,
  type ChatAgent,
  type ChatAnswer,
  type CompletedAnswer,
  type Echo,
  echoOfChat,
  type Round,
  retrievalSettings,
} from './chat.model.ts';
import { createChatRepository } from './chat.repository.ts';
import type { CitationTracker } from './citations.ts';
import { buildPrompt } from './prompt.ts';
import { createRoundsRepository } from './rounds.repository.ts';
import { createReplayableBuffer, type RoundEventLog } from './stream.ts';
import { type ToolCallLoop, type ToolCallLoopReply, toModelTool } from './tool-loop.ts';
import type { RoundToolChooser } from './tools.ts';

/** Maximum earlier rounds that are read as history for the prompt; the token budget usually allows fewer. */
const historyRounds = 50;

export type LeasedOpenRound = {
  chat: Chat;
  agent: ChatAgent;
  round: number;
  leaseOwner: string;
  attempt: number;
  question: string;
};

export type ChatAnswerWriter = ReturnType<typeof createChatAnswerWriter>;

/**
 * Answers an open round: builds the prompt, calls the model and its tools, and checks citations. One transaction stores
 * the whole answer; after a failure, nothing is stored.
 */
export function createChatAnswerWriter(deps: {
  db: Knex;
  askModel: ToolCallLoop;
  chooseTools: RoundToolChooser;
  retrieval: Pick<RetrievalService, 'retrieve'>;
  scoringRequests: Pick<ChatScoringQueueService, 'requestScoring'>;
  trackCitations: CitationTracker;
  models: Pick<ModelsService, 'contextBudget' | 'contextWindow' | 'priceOf'>;
  tokenCounter: TokenCounter;
  spotlight: Spotlight;
  audit: AuditService;
  logger: Logger;
}) {
  const { db, askModel, chooseTools, retrieval, scoringRequests, trackCitations, models, tokenCounter } = deps;
  const { spotlight, audit, logger } = deps;

  async function writeAnswer(
    actor: RequestActor,
    open: LeasedOpenRound,
    signal: AbortSignal,
    log: Pick<RoundEventLog, 'token' | 'nextSeq'>,
  ): Promise<CompletedAnswer> {
    const { chat, round } = open;
    const { chatModel: model, temperature } = open.agent;
    const startedAt = performance.now();
    const prepared = await prepare(actor, open, signal);
    const { prompt, filter, tools, writtenByPeople, earlierReplies } = prepared;
    const { messages, maxTokens, toolTokens } = prompt;
    const replyCitations = trackCitations(actor, prompt.passages, signal);
    const pieces = createReplayableBuffer<string>();
    const failed = new AbortController();
    const stopped = AbortSignal.any([signal, failed.signal]);
    const request = { model, messages, temperature, maxTokens, signal: stopped };
    const toolRound = {
      id: `${chat.id}/${round}`,
      tools,
      context: { actor, trustedTexts: writtenByPeople },
      // Document names are untrusted too, because other users choose them.
      untrustedTexts: (prompt.passages ?? []).flatMap(({ documentName, content }) => [documentName, content]),
      earlierReplies,
      citations: replyCitations,
      allowAddresses: filter.allow,
      recordAction: (tool: Tool, callKey: string) => recordAction(actor, open, tool, callKey),
      signal: stopped,
    };
    const loop = { round: toolRound, toolTokens, logger: logger.child({ chatId: chat.id, round }) };
    const writing = [
      askModel(request, loop, pieces.push).finally(pieces.close),
      // Citation markers are removed before the link filter runs: removing one afterwards could join text into a URL
      // that the filter has not checked.
      passOn(filter.rewrite(replyCitations.rewrite(pieces.read())), log.token, signal),
    ] as const;
    const [reply, text] = await Promise.all(writing).catch(async (error: unknown) => {
      // Waits until the text that the model wrote before the failure is sent, so that no text follows the `error`
      // event.
      failed.abort(error);
      await Promise.allSettled(writing);
      throw error;
    });
    if (filter.removedCount() > 0) {
      logger.warn(
        { chatId: chat.id, round, addresses: filter.removedCount() },
        'removed URLs from a reply that the model had not read',
      );
    }
    if (reply.truncatedBy !== undefined)
      logger.warn({ chatId: chat.id, round, truncatedBy: reply.truncatedBy }, 'a reply was truncated');
    if (text.trim() === '') {
      throw appError('model_response_invalid', {
        detail: "The chat model's answer contains nothing but invalid citations.",
      });
    }
    const latencyMs = Math.round(performance.now() - startedAt);
    const { citations, dropped } = await replyCitations.sources(text);

    const at = new Date().toISOString();
    const events = eventsOf(prepared.level, prepared.degradations, dropped);
    const answer: CompletedAnswer = {
      assistantReply: text,
      citations,
      toolCalls: reply.toolCalls,
      answerEvents: events.map((event) => ({ ...event, round, at })),
      ...reply.usage,
      ...(await costOf(reply)),
      latencyMs,
    };
    signal.throwIfAborted();
    await store(actor, open, answer, log.nextSeq());
    return answer;
  }

  /** Builds the prompt, and collects the texts whose URLs may appear in the reply and in tool calls. */
  async function prepare(actor: RequestActor, { chat, agent, round, question }: LeasedOpenRound, signal: AbortSignal) {
    const { agentPrompt: persona, anchorWords: anchors, chatModel: model, maxTokens } = agent;
    const rounds = createRoundsRepository(db);
    const retrieve = async () => {
      const contextTokens = await models.contextBudget(model);
      return retrieval.retrieve(actor, { query: question, ...retrievalSettings(chat, agent), contextTokens, signal });
    };
    const [found, history, scored, window, offered] = await Promise.all([
      chat.ragEnabled ? retrieve() : null,
      rounds.listForPrompt(chat.id, round, historyRounds),
      rounds.findNewestScored(chat.id),
      models.contextWindow(model),
      chooseTools(actor, chat, agent),
    ]);
    const steering = steeringInstructionsFor(scored?.foldState ?? initialAlignmentState, { persona, anchors });
    const nonce = randomBytes(8).toString('hex');
    const passages = found?.chunks ?? null;
    const tools = offered.map(toModelTool);
    const prompt = buildPrompt(
      { persona, steering, passages, history, question, tools, nonce, spotlight, window, maxTokens },
      tokenCounter,
    );
    if (prompt.suspicious.length > 0) {
      const chunkIds = prompt.suspicious.map(({ chunkId }) => chunkId);
      logger.warn({ chatId: chat.id, round, chunkIds }, 'passages in a prompt contain instructions to the model');
    }
    const writtenByPeople = [persona, question, ...history.map(({ userContent }) => userContent)];
    const documents = (prompt.passages ?? []).map(({ content }) => removeInvisibleCharacters(content));
    const earlierReplies = history.map(({ assistantReply }) => textBeforeCode(assistantReply ?? ''));
    return {
      prompt,
      filter: createReplyFilter([...writtenByPeople, ...earlierReplies, ...documents]),
      level: prompt.isSteered ? steering.level : null,
      degradations: found?.degradations ?? [],
      tools: prompt.tools.length > 0 ? offered : [],
      writtenByPeople,
      earlierReplies,
    };
  }

  /** Audits a change that a tool made in another system, even if the answer fails. Omits the arguments. */
  async function recordAction(actor: RequestActor, { chat, round }: LeasedOpenRound, tool: Tool, callKey: string) {
    const { orgId, userId: actorId, requestId } = actor;
    const detail = { provider: tool.provider, tool: tool.id, round, call: callKey };
    const entry = { orgId, actorId, action: 'tool.acted', target: chat.id, detail, requestId };
    await audit.record(db, entry).catch((error: unknown) => {
      logger.error({ err: error, ...entry }, 'writing the audit entry of a tool action failed');
    });
  }

  async function costOf(reply: ToolCallLoopReply): Promise<Pick<CompletedAnswer, 'costUsd' | 'priceVersion'>> {
    const price = await models.priceOf(reply.model);
    if (price !== null) return { costUsd: modelCostUsd(price, reply.usage), priceVersion: price.version };
    logger.warn({ model: reply.model }, 'a model without a price counts as free');
    return { costUsd: 0, priceVersion: null };
  }

  async function store(
    actor: RequestActor,
    open: LeasedOpenRound,
    answer: CompletedAnswer,
    lastSeq: number,
  ): Promise<void> {
    const { chat, round, leaseOwner } = open;
    const key = { chatId: chat.id, round };
    const stored = db.transaction(async (trx) => {
      const chats = createChatRepository(trx);
      await chats.lock(chat.orgId, chat.id);
      const isOurs = await createRoundsRepository(trx).complete(key, leaseOwner, answer, lastSeq);
      if (!isOurs) throw appError('interrupted', { detail: 'Another process has ended this round.' });
      await chats.recordAnswer(chat.id, answer);
      if (chat.draftVersionId === null) await scoringRequests.requestScoring(trx, chat, actor.requestId);
    });
    await stored.catch(async (error: unknown) => {
      // If the database connection broke during the commit, the answer may be stored nevertheless, so the round is read
      // again.
      const now = await createRoundsRepository(db).find(key);
      if (now?.status !== 'complete' || now.streamId !== leaseOwner) throw error;
    });
  }

  return writeAnswer;
}

async function passOn(
  pieces: AsyncIterable<string>,
  onToken: (text: string) => void,
  stopped: AbortSignal,
): Promise<string> {
  let whole = '';
  for await (const piece of pieces) {
    stopped.throwIfAborted();
    whole += piece;
    onToken(piece);
  }
  return whole;
}

function eventsOf(
  level: SteeringInstructions['level'],
  degradations: readonly RetrievalDegradation[],
  dropped: readonly DroppedCitation[],
): AlignmentEventBody[] {
  const events: AlignmentEventBody[] = [];
  if (level !== null) events.push({ type: 'steering_applied', data: { level } });
  for (const data of degradations) events.push({ type: 'retrieval_degraded', data });
  for (const data of dropped) events.push({ type: 'citation_dropped', data });
  return events;
}

export function createReplyFilter(texts: readonly string[]) {
  const allowed = new Set(texts.flatMap(extractUrls));
  const filter = createLinkFilter(allowed);

  return {
    async *rewrite(pieces: AsyncIterable<string>): AsyncGenerator<string> {
      for await (const piece of pieces) {
        const text = filter.add(piece);
        if (text !== '') yield text;
      }
      const rest = filter.end();
      if (rest !== '') yield rest;
    },
    allow(addresses: readonly string[]): void {
      for (const address of addresses) allowed.add(address);
    },
    removedCount: filter.removedCount,
  };
}

/** Returns a reply up to its first code block, whose links are unchecked and may be invented by the model. */
function textBeforeCode(reply: string): string {
  return reply.split(/`{3}|~{3}/, 1)[0] ?? '';
}

const echoPollEveryMs = 15;

const echoBeforeAnyScore: Echo = { state: 'stable', ewma: 100, alignmentScore: 1, round: 0, events: [] };

export type ChatAnswerPresenter = ReturnType<typeof createChatAnswerPresenter>;

export function createChatAnswerPresenter(deps: { db: Knex; echoWaitMs: number; logger: Logger }) {
  const { db, echoWaitMs, logger } = deps;
  const chats = createChatRepository(db);

  /** Waits at most `echoWaitMs` for the worker to score the round, so that the response contains the round's echo. */
  function fresh({ chat, agent, round }: LeasedOpenRound, answer: CompletedAnswer): Promise<ChatAnswer> {
    const { assistantReply: reply, citations, toolCalls, answerEvents } = answer;
    const echo = chat.draftVersionId === null ? waitForEcho(chat.id, round) : Promise.resolve(echoBeforeAnyScore);
    return present(chat, { round, reply, citations, toolCalls, model: agent.chatModel }, answerEvents, echo);
  }

  async function stored(chat: Chat, completed: Round): Promise<ChatAnswer> {
    const { round, citations, toolCalls, answerEvents, model, assistantReply } = completed;
    const written = { round, reply: assistantReply ?? '', citations, toolCalls, model };
    return present(chat, written, answerEvents, readEcho(chat.id));
  }

  /**
   * Builds the response for a stored answer. If the newest echo or title cannot be read, uses those in `chat` instead
   * of failing.
   */
  async function present(
    chat: Chat,
    written: Omit<ChatAnswer, 'chatId' | 'title' | 'echo' | 'isDraft'>,
    answerEvents: CompletedAnswer['answerEvents'],
    newest: Promise<Echo>,
  ): Promise<ChatAnswer> {
    const warn = (error: unknown) => {
      logger.warn({ err: error, chatId: chat.id }, 'an answer was sent with an older alignment state of its chat');
    };
    const echo = withEventsOf(
      { round: written.round, answerEvents },
      (await newest.catch(warn)) ?? echoOfChat(chat, []),
    );
    const title = await chats.findTitle(chat.orgId, chat.id).catch(warn);
    return { ...written, chatId: chat.id, title: title ?? chat.title, echo, isDraft: chat.draftVersionId !== null };
  }

  async function waitForEcho(chatId: string, round: number): Promise<Echo> {
    const deadline = performance.now() + echoWaitMs;
    for (;;) {
      const echo = await readEcho(chatId);
      if (echo.round >= round || performance.now() >= deadline) return echo;
      await delay(echoPollEveryMs);
    }
  }

  async function readEcho(chatId: string): Promise<Echo> {
    const scored = await createRoundsRepository(db).findNewestScored(chatId);
    if (scored === undefined) return echoBeforeAnyScore;
    return {
      state: scored.echoState ?? echoBeforeAnyScore.state,
      ewma: scored.ewma ?? echoBeforeAnyScore.ewma,
      alignmentScore: scored.alignmentScore ?? echoBeforeAnyScore.alignmentScore,
      round: scored.round,
      events: [...scored.answerEvents, ...scored.events],
    };
  }

  return { fresh, stored };
}

/**
 * Returns the echo of an answer. If its round is not scored yet, `echo` belongs to an older round and gets the
 * alignment events of the new answer appended.
 */
function withEventsOf({ round, answerEvents }: Pick<Round, 'round' | 'answerEvents'>, echo: Echo): Echo {
  return echo.round === round ? echo : { ...echo, events: [...echo.events, ...answerEvents] };
}
