import { randomBytes } from 'node:crypto';
import type { Knex } from 'knex';
import type { Logger } from 'pino';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import { costUsd } from '#src/domain/agents/models.ts';
import type { Tool } from '#src/domain/agents/tools.ts';
import type { AlignmentEventBody } from '#src/domain/alignment/events.ts';
import { initialFoldState } from '#src/domain/alignment/fold.ts';
import { type Steering, steeringFor } from '#src/domain/alignment/steering.ts';
import type { DroppedCitation } from '#src/domain/chat/citations.ts';
import { visibleText } from '#src/domain/chat/context-blocks.ts';
import type { TokenCounter } from '#src/domain/text/tokens.ts';
import { appError } from '#src/errors.ts';
import type { AlignmentService } from '#src/modules/alignment/alignment.service.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { RetrievalDegradation, RetrievalService } from '#src/modules/retrieval/retrieval.service.ts';
import type { Chat, ChatAgent, CompletedAnswer } from './chat.model.ts';
import { createChatRepository } from './chat.repository.ts';
import type { Citer } from './citer.ts';
import { buildPrompt } from './prompt.ts';
import { ragSettings } from './rag-settings.ts';
import { createReplayBuffer } from './replay-buffer.ts';
import { createReplyFilter, textBeforeCode } from './reply-filter.ts';
import type { RoundLog } from './round-log.ts';
import type { ToolChooser } from './round-tools.ts';
import { createRoundsRepository } from './rounds.repository.ts';
import { type LoopReply, type ToolLoop, toModelTool } from './tool-loop.ts';

/** Rounds that are looked at for the conversation in the prompt; their tokens are the real bound. */
const historyRounds = 50;

/** An open round that this process holds. */
export type OpenRound = {
  chat: Chat;
  agent: ChatAgent;
  round: number;
  leaseOwner: string;
  attempt: number;
  question: string;
};

export type AnswerWriter = ReturnType<typeof createAnswerWriter>;

/** Writes the answer of an open round and stores it whole, or not at all. */
export function createAnswerWriter(deps: {
  db: Knex;
  askModel: ToolLoop;
  chooseTools: ToolChooser;
  retrieval: Pick<RetrievalService, 'retrieve'>;
  alignment: Pick<AlignmentService, 'requestScoring'>;
  cite: Citer;
  models: Pick<ModelsService, 'contextBudget' | 'contextWindow' | 'priceOf'>;
  tokenCounter: TokenCounter;
  audit: AuditService;
  logger: Logger;
}) {
  const { db, askModel, chooseTools, retrieval, alignment, cite, models, tokenCounter, audit, logger } = deps;

  async function priced(reply: LoopReply): Promise<Pick<CompletedAnswer, 'costUsd' | 'priceVersion'>> {
    const price = await models.priceOf(reply.model);
    if (price !== null) return { costUsd: costUsd(price, reply.usage), priceVersion: price.version };
    logger.warn({ model: reply.model }, 'a model without a price counts as free');
    return { costUsd: 0, priceVersion: null };
  }

  /** What was done outside stays done, whatever becomes of the answer; its text is only in the answer. */
  async function recordAct(actor: RequestActor, { chat, round }: OpenRound, tool: Tool, callKey: string) {
    const { orgId, userId: actorId, requestId } = actor;
    const detail = { provider: tool.provider, tool: tool.id, round, call: callKey };
    const entry = { orgId, actorId, action: 'tool.acted', target: chat.id, detail, requestId };
    await audit.record(db, entry).catch((error: unknown) => {
      logger.error({ err: error, ...entry }, 'an act of a tool could not be recorded');
    });
  }

  /** One transaction: the answer, the chat's sums, and the job that scores the round. */
  async function store(actor: RequestActor, open: OpenRound, answer: CompletedAnswer, lastSeq: number): Promise<void> {
    const { chat, round, leaseOwner } = open;
    const key = { chatId: chat.id, round };
    const stored = db.transaction(async (trx) => {
      const chats = createChatRepository(trx);
      await chats.lock(chat.orgId, chat.id);
      const isOurs = await createRoundsRepository(trx).complete(key, leaseOwner, answer, lastSeq);
      if (!isOurs) throw appError('interrupted', { detail: 'Another process ended this round.' });
      await chats.recordAnswer(chat.id, answer);
      await alignment.requestScoring(trx, chat, actor.requestId);
    });
    await stored.catch(async (error: unknown) => {
      // A connection that broke may have brought the commit to its end.
      const now = await createRoundsRepository(db).find(key);
      if (now?.status !== 'complete' || now.streamId !== leaseOwner) throw error;
    });
  }

  /** What is asked of the model, and what its reply may name. */
  async function prepare(actor: RequestActor, { chat, agent, round, question }: OpenRound, signal: AbortSignal) {
    const { agentPrompt: persona, anchorWords: anchors, chatModel: model, maxTokens } = agent;
    const rounds = createRoundsRepository(db);
    const retrieve = async () => {
      const contextTokens = await models.contextBudget(model);
      return retrieval.retrieve(actor, { query: question, ...ragSettings(chat), contextTokens, signal });
    };
    const [found, history, scored, window, offered] = await Promise.all([
      chat.ragEnabled ? retrieve() : null,
      rounds.listForPrompt(chat.id, round, historyRounds),
      rounds.findNewestScored(chat.id),
      models.contextWindow(model),
      chooseTools(actor, chat, agent),
    ]);
    const steering = steeringFor(scored?.foldState ?? initialFoldState, { persona, anchors });
    const nonce = randomBytes(8).toString('hex');
    const passages = found?.chunks ?? null;
    const tools = offered.map(toModelTool);
    const prompt = buildPrompt(
      { persona, steering, passages, history, question, tools, nonce, window, maxTokens },
      tokenCounter,
    );
    if (prompt.suspicious.length > 0) {
      const chunkIds = prompt.suspicious.map(({ chunkId }) => chunkId);
      logger.warn({ chatId: chat.id, round, chunkIds }, 'passages of a prompt speak to the model');
    }
    const people = [persona, question, ...history.map(({ userContent }) => userContent)];
    const documents = (prompt.passages ?? []).map(({ content }) => visibleText(content));
    const earlier = history.map(({ assistantReply }) => textBeforeCode(assistantReply ?? ''));
    return {
      prompt,
      filter: createReplyFilter([...people, ...earlier, ...documents]),
      level: prompt.isSteered ? steering.level : null,
      degradations: found?.degradations ?? [],
      tools: prompt.tools.length > 0 ? offered : [],
      people,
      earlier,
    };
  }

  return async (
    actor: RequestActor,
    open: OpenRound,
    signal: AbortSignal,
    log: Pick<RoundLog, 'token' | 'nextSeq'>,
  ): Promise<CompletedAnswer> => {
    const { chat, round } = open;
    const { chatModel: model, temperature } = open.agent;
    const startedAt = performance.now();
    const { prompt, filter, level, degradations, tools, people, earlier } = await prepare(actor, open, signal);
    const { messages, maxTokens, toolTokens } = prompt;
    const citing = cite(actor, prompt.passages, signal);
    // The model does not wait while a citation is checked.
    const pieces = createReplayBuffer<string>();
    const failed = new AbortController();
    const stopped = AbortSignal.any([signal, failed.signal]);
    const asked = { model, messages, temperature, maxTokens, signal: stopped };
    const toolRound = {
      id: `${chat.id}/${round}`,
      tools,
      context: { actor, trustedTexts: people },
      // Names of documents are given by others, too.
      untrustedTexts: (prompt.passages ?? []).flatMap(({ documentName, content }) => [documentName, content]),
      seenTexts: earlier,
      citing,
      know: filter.know,
      acted: (tool: Tool, callKey: string) => recordAct(actor, open, tool, callKey),
      signal: stopped,
    };
    const loop = { round: toolRound, toolTokens, logger: logger.child({ chatId: chat.id, round }) };
    const writing = [
      askModel(asked, loop, pieces.push).finally(pieces.close),
      // What leaves out markers comes first: no address may close up behind the eyes that look for it.
      passOn(filter.rewrite(citing.rewrite(pieces.read())), log.token, signal),
    ] as const;
    const [reply, text] = await Promise.all(writing).catch(async (error: unknown) => {
      // What the model wrote before it failed still goes out; behind the end nothing does.
      failed.abort(error);
      await Promise.allSettled(writing);
      throw error;
    });
    if (filter.removedCount() > 0) {
      logger.warn({ chatId: chat.id, round, addresses: filter.removedCount() }, 'a reply lost addresses');
    }
    if (reply.truncatedBy !== undefined)
      logger.warn({ chatId: chat.id, round, truncatedBy: reply.truncatedBy }, 'a reply was cut');
    if (text.trim() === '') {
      throw appError('model_response_invalid', {
        detail: 'The answer of the chat model holds nothing but wrong citations.',
      });
    }
    const latencyMs = Math.round(performance.now() - startedAt);
    const { citations, dropped } = await citing.sources(text);

    const at = new Date().toISOString();
    const events = eventsOf(level, degradations, dropped);
    const answer: CompletedAnswer = {
      assistantReply: text,
      citations,
      toolCalls: reply.toolCalls,
      answerEvents: events.map((event) => ({ ...event, round, at })),
      ...reply.usage,
      ...(await priced(reply)),
      latencyMs,
    };
    signal.throwIfAborted();
    await store(actor, open, answer, log.nextSeq());
    return answer;
  };
}

/** Gives each piece on as it comes, until it is stopped; resolves with the whole. */
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
  level: Steering['level'],
  degradations: readonly RetrievalDegradation[],
  dropped: readonly DroppedCitation[],
): AlignmentEventBody[] {
  const events: AlignmentEventBody[] = [];
  if (level !== null) events.push({ type: 'steering_applied', data: { level } });
  for (const data of degradations) events.push({ type: 'retrieval_degraded', data });
  for (const data of dropped) events.push({ type: 'citation_dropped', data });
  return events;
}
