import { createPgModelCallLimiter } from '../adapters/postgres/limits.ts';
import { createTopicWordIndex } from '../adapters/text/topic-words.ts';
import { deriveKey } from '../derived-key.ts';
import { createAgentsService } from '../modules/agents/agents.service.ts';
import { createAnchorWordCandidateRanker } from '../modules/anchor-words/anchor-candidates.ts';
import { createAnchorFitService } from '../modules/anchor-words/anchor-fit.service.ts';
import { createAnchorWordsService } from '../modules/anchor-words/anchor-words.service.ts';
import { createAnchorWordCandidatesService } from '../modules/anchor-words/anchoring.service.ts';
import { createCaseReplyPreparer } from '../modules/chat/case-replies.ts';
import { createCitationTracker } from '../modules/chat/citations.ts';
import { createDraftChatsService } from '../modules/chat/draft-chats.service.ts';
import { createDraftsService } from '../modules/drafts/drafts.service.ts';
import { createComparisonsService } from '../modules/evaluations/comparisons.service.ts';
import { createEvaluationStepsService } from '../modules/evaluations/evaluation-steps.service.ts';
import { createEvaluationsService } from '../modules/evaluations/evaluations.service.ts';
import { createEvaluationJudge } from '../modules/evaluations/judge.ts';
import { createVersionEvaluationsService } from '../modules/evaluations/version-evaluations.service.ts';
import type { AccountServices } from './account-services.ts';
import type { DocumentServices } from './document-services.ts';
import type { SearchServices } from './search-services.ts';
import type { SharedServices } from './shared-services.ts';
import type { ToolServices } from './tool-services.ts';

export function createAgentServices(
  services: SharedServices & AccountServices & DocumentServices & ToolServices & SearchServices,
) {
  const { config, db, logger, tokens, analyze, chatModel, alignmentEmbedder } = services;
  const { models, limits, jobs, teams, retrieval } = services;

  const drafts = createDraftsService({ db, limits, teams, models, draftChats: createDraftChatsService() });
  const anchorWordSources = {
    chatModel,
    findCandidates: createAnchorWordCandidateRanker({
      embedder: alignmentEmbedder,
      topicWords: createTopicWordIndex(config.models.alignment),
      analyze,
    }),
  };
  const anchoring = createAnchorWordCandidatesService({ db, jobs, models, ...anchorWordSources, logger });
  const tools = services.toolCatalog;
  const { detectLanguage } = services;
  const anchorFit = createAnchorFitService({ retrieval, embedder: alignmentEmbedder, analyze, detectLanguage, logger });
  const agents = createAgentsService({
    db,
    drafts,
    limits,
    teams,
    models,
    tools,
    anchoring,
    anchorFit,
    retrieval,
    jobs,
  });
  const { documents, jobWatch, auth, embedders, vectors } = services;
  const evaluating = { db, drafts, documents, limits, models, jobs, logger, jobWatch };
  const trackCitations = createCitationTracker({ retrieval, models, embedders, vectors, analyze, logger });
  const { spotlight } = config.models;
  const nonceKey = deriveKey(config.urlSigningKey, 'judged-texts');

  return {
    drafts,
    anchoring,
    anchorWords: createAnchorWordsService({ agents, models, retrieval, ...anchorWordSources, logger }),
    agents,
    evaluations: createEvaluationsService(evaluating),
    comparisons: createComparisonsService({ db }),
    versionEvaluations: createVersionEvaluationsService(evaluating),
    evaluationSteps: createEvaluationStepsService({
      db,
      chatModel,
      limiter: createPgModelCallLimiter(db),
      createJudge: (limited) => createEvaluationJudge({ chatModel: limited, models, counter: tokens, nonceKey }),
      models,
      tokens,
      findActor: auth.findActor,
      prepareReply: createCaseReplyPreparer({ retrieval, models, trackCitations, tokenCounter: tokens, spotlight }),
      jobs,
    }),
  };
}
