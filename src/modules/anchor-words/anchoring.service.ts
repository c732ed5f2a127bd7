import type { Knex } from 'knex';
import type { Logger } from 'pino';
import type {
  ProposeAnchorWordsInput,
  ProposeAnchorWordsResult,
  RecordAnchoringEndInput,
  RecordAnchoringFailureInput,
} from '#src/contracts/alignment.ts';
import { anchoringWorkflowId } from '#src/contracts/workflow-ids.ts';
import { AppError } from '#src/errors.ts';
import type { JobsService } from '#src/modules/jobs/jobs.service.ts';
import { type AnchoredAgent, createAnchoringRepository } from './anchoring.repository.ts';
import type { CandidateFinder } from './candidate-finder.ts';
import type { WordProposer } from './word-proposer.ts';

/** Nobody waits; a model on our own machine may be busy with answers. */
const proposalTimeoutMs = 120_000;

const idOf = ({ agentId }: Pick<ProposeAnchorWordsInput, 'agentId'>): string => anchoringWorkflowId(agentId);

export type AnchoringService = ReturnType<typeof createAnchoringService>;

/**
 * The work of `proposeAnchorWords`. What it proposes is shown to everybody who may use the agent, so that it looks into
 * no documents.
 */
export function createAnchoringService(deps: {
  db: Knex;
  jobs: Pick<JobsService, 'enqueue' | 'advance'>;
  propose: WordProposer;
  find: CandidateFinder;
  logger: Pick<Logger, 'warn'>;
}) {
  const { jobs, propose, find, logger } = deps;
  const repository = createAnchoringRepository(deps.db);

  type Step = { mayDegrade: boolean; signal: AbortSignal };

  /** A refusal is the same tomorrow, and there are other words. */
  async function proposalsFor(agent: AnchoredAgent, words: string[], { mayDegrade, signal }: Step): Promise<string[]> {
    const subject = { ...agent, words, excludeWords: [] };
    return propose(subject, { model: agent.chatModel, timeoutMs: proposalTimeoutMs, signal }).catch(
      (error: unknown) => {
        signal.throwIfAborted();
        if (!mayDegrade && error instanceof AppError && error.errorClass === 'transient') throw error;
        logger.warn({ err: error, model: agent.chatModel }, 'a chat model proposed no anchor words');
        return [];
      },
    );
  }

  return {
    /** For an agent that is published in this transaction. @returns the job to dispatch after the commit */
    async enqueue(
      trx: Knex,
      agent: ProposeAnchorWordsInput & { acl: readonly string[]; createdBy: string },
      requestId: string | null,
    ): Promise<string> {
      const { orgId, agentId, acl, createdBy } = agent;
      const summary = `Anchor words for agent ${agentId}`;
      const start = { workflow: 'proposeAnchorWords', input: { orgId, agentId }, summary } as const;
      const id = idOf(agent);
      await jobs.enqueue(trx, { id, kind: 'anchors', orgId, agentId, acl, createdBy, start, requestId });
      return id;
    },

    /**
     * Gives the agent its candidates, unless it has some or is deleted. Throws as `Embedder` does, and as `ChatModel`
     * what may pass by itself, unless it `mayDegrade`.
     */
    async propose(of: ProposeAnchorWordsInput, step: Step): Promise<ProposeAnchorWordsResult> {
      await jobs.advance(idOf(of), { status: 'running', stage: 'propose' });
      const agent = await repository.find(of);
      if (agent === undefined) return { count: 0 };
      if (agent.anchorWordCandidates.length > 0) return { count: agent.anchorWordCandidates.length };
      const words = Object.keys(agent.anchorWords);
      const proposals = await proposalsFor(agent, words, step);
      const candidates = await find({ ...agent, words, excludeWords: [] }, { proposals, passages: [] }, step.signal);
      await repository.store(of, candidates);
      return { count: (await repository.find(of))?.anchorWordCandidates.length ?? 0 };
    },

    async recordSuccess({ attempt, startId, ...of }: RecordAnchoringEndInput): Promise<void> {
      await jobs.advance(idOf(of), { status: 'succeeded' }, { attempt, startId });
    },

    async recordParked({ error, ...of }: RecordAnchoringFailureInput): Promise<void> {
      await jobs.advance(idOf(of), { status: 'parked', error });
    },

    async recordResumed(of: ProposeAnchorWordsInput): Promise<void> {
      await jobs.advance(idOf(of), { status: 'running' });
    },

    async recordFailure({ error, attempt, startId, ...of }: RecordAnchoringFailureInput): Promise<void> {
      await jobs.advance(idOf(of), { status: 'failed', error }, { attempt, startId });
    },

    async recordCancellation({ attempt, startId, ...of }: RecordAnchoringEndInput): Promise<void> {
      await jobs.advance(idOf(of), { status: 'cancelled' }, { attempt, startId });
    },
  };
}
