import type { Knex } from 'knex';
import type { Logger } from 'pino';
import type {
  ProposeAnchorWordsInput,
  ProposeAnchorWordsResult,
  RecordAnchorWordsEndInput,
  RecordAnchorWordsFailureInput,
} from '#src/contracts/alignment.ts';
import { subjectInSummary } from '#src/contracts/jobs.ts';
import { anchorWordsWorkflowId } from '#src/contracts/workflow-ids.ts';
import { AppError } from '#src/errors.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { ChatModel } from '#src/ports/models.ts';
import { type AnchorWordCandidateRanker, proposeAnchorWords } from './anchor-candidates.ts';
import { type AgentForAnchorWords, createAnchorWordCandidatesRepository } from './anchoring.repository.ts';

/** Timeout of the chat model; long because no user waits and a local model may be busy with chats. */
const proposalTimeoutMs = 120_000;

const jobIdOf = ({ agentId }: Pick<ProposeAnchorWordsInput, 'agentId'>): string => anchorWordsWorkflowId(agentId);

export type AnchorWordCandidatesService = ReturnType<typeof createAnchorWordCandidatesService>;

/**
 * Activities of the workflow `proposeAnchorWords`, which stores anchor word candidates for a published agent. They read
 * no documents, because every user of the agent sees the candidates.
 */
export function createAnchorWordCandidatesService(deps: {
  db: Knex;
  jobs: Pick<JobsService, 'enqueue' | 'advance'>;
  chatModel: Pick<ChatModel, 'stream'>;
  models: Pick<ModelsService, 'chatModelOrDefault'>;
  findCandidates: AnchorWordCandidateRanker;
  logger: Pick<Logger, 'warn'>;
}) {
  const { jobs, chatModel, models, findCandidates, logger } = deps;
  const repository = createAnchorWordCandidatesRepository(deps.db);

  type Step = { mayDegrade: boolean; signal: AbortSignal };

  /** Asks the chat model for anchor words. Returns none if it rejects the request or, with `mayDegrade`, is down. */
  async function proposalsFor(
    agent: AgentForAnchorWords,
    words: string[],
    { mayDegrade, signal }: Step,
  ): Promise<string[]> {
    const subject = { ...agent, words, excludeWords: [] };
    const model = models.chatModelOrDefault(agent.chatModel);
    const options = { model, timeoutMs: proposalTimeoutMs, signal };
    return proposeAnchorWords(chatModel, subject, options).catch((error: unknown) => {
      signal.throwIfAborted();
      if (!mayDegrade && error instanceof AppError && error.errorClass === 'transient') throw error;
      logger.warn({ err: error, model }, 'asking a chat model for anchor words failed');
      return [];
    });
  }

  return {
    /** Inserts the job of an agent that `trx` publishes. Returns its id; dispatch the job after the commit. */
    async enqueue(
      trx: Knex,
      agent: ProposeAnchorWordsInput & { acl: readonly string[]; createdBy: string },
      requestId: string | null,
    ): Promise<string> {
      const { orgId, agentId, acl, createdBy } = agent;
      const summary = `Propose anchor words for ${subjectInSummary}`;
      const start = { workflow: 'proposeAnchorWords', input: { orgId, agentId }, summary } as const;
      const id = jobIdOf(agent);
      await jobs.enqueue(trx, { id, kind: 'anchors', orgId, agentId, acl, createdBy, start, requestId });
      return id;
    },

    /**
     * Stores anchor word candidates for the agent, unless it already has some or was deleted. Throws errors of
     * `Embedder`, and transient errors of `ChatModel` unless `mayDegrade` is set.
     */
    async propose(of: ProposeAnchorWordsInput, step: Step): Promise<ProposeAnchorWordsResult> {
      await jobs.advance(jobIdOf(of), { status: 'running', stage: 'propose' });
      const agent = await repository.find(of);
      if (agent === undefined) return { count: 0 };
      if (agent.anchorWordCandidates.length > 0) return { count: agent.anchorWordCandidates.length };
      const words = Object.keys(agent.anchorWords);
      const proposals = await proposalsFor(agent, words, step);
      const candidates = await findCandidates(
        { ...agent, words, excludeWords: [] },
        { proposals, passages: [] },
        step.signal,
      );
      await repository.store(of, candidates);
      return { count: (await repository.find(of))?.anchorWordCandidates.length ?? 0 };
    },

    async recordSuccess({ attempt, startId, ...of }: RecordAnchorWordsEndInput): Promise<void> {
      await jobs.advance(jobIdOf(of), { status: 'succeeded' }, { attempt, startId });
    },

    async recordParked({ error, ...of }: RecordAnchorWordsFailureInput): Promise<void> {
      await jobs.advance(jobIdOf(of), { status: 'parked', error });
    },

    async recordResumed(of: ProposeAnchorWordsInput): Promise<void> {
      await jobs.advance(jobIdOf(of), { status: 'running' });
    },

    async recordFailure({ error, attempt, startId, ...of }: RecordAnchorWordsFailureInput): Promise<void> {
      await jobs.advance(jobIdOf(of), { status: 'failed', error }, { attempt, startId });
    },

    async recordCancellation({ attempt, startId, ...of }: RecordAnchorWordsEndInput): Promise<void> {
      await jobs.advance(jobIdOf(of), { status: 'cancelled' }, { attempt, startId });
    },
  };
}
