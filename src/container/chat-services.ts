import { isDatabaseOutage } from '../adapters/postgres/errors.ts';
import { createAlignmentService } from '../modules/alignment/alignment.service.ts';
import { createRoundMeasurer, createScoreAdjudicator } from '../modules/alignment/round-measurer.ts';
import { createChatScoringQueueService } from '../modules/alignment/scoring-requests.service.ts';
import { createChatAnswerWriter } from '../modules/chat/answer.ts';
import { createChatService } from '../modules/chat/chat.service.ts';
import { createCitationTracker } from '../modules/chat/citations.ts';
import { createChatRoundOpener } from '../modules/chat/rounds.ts';
import { createToolCallLoop } from '../modules/chat/tool-loop.ts';
import { createRoundToolChooser } from '../modules/chat/tools.ts';
import { createLogsService } from '../modules/logs/logs.service.ts';
import type { AccountServices } from './account-services.ts';
import type { SearchServices } from './search-services.ts';
import type { SharedServices } from './shared-services.ts';
import type { ToolServices } from './tool-services.ts';

export function createChatServices(services: SharedServices & AccountServices & SearchServices & ToolServices) {
  const { config, db, logger, audit, tokens: tokenCounter, analyze, embedders, vectors, chatModel } = services;
  const { alignmentEmbedder, jobs, models, teams, auth, retrieval, toolCatalog, executors } = services;

  const rounds = createRoundMeasurer({
    embedder: alignmentEmbedder,
    analyze,
    adjudicate: config.alignmentAdjudication === 'chat_model' ? createScoreAdjudicator({ chatModel, logger }) : null,
    logger,
  });
  const { spotlight } = config.models;
  const scoringRequests = createChatScoringQueueService({ db, jobs, scorerVersion: rounds.version });
  const chat = createChatService({
    db,
    openRound: createChatRoundOpener({ db, teams, models, tokenCounter }),
    writeAnswer: createChatAnswerWriter({
      db,
      askModel: createToolCallLoop({ chatModel, tokenCounter, spotlight }),
      chooseTools: createRoundToolChooser({ toolCatalog, executors, retrieval, models }),
      retrieval,
      scoringRequests,
      models,
      trackCitations: createCitationTracker({ retrieval, models, embedders, vectors, analyze, logger }),
      tokenCounter,
      spotlight,
      audit,
      logger,
    }),
    retrieval,
    scoringRequests,
    accounts: auth,
    echoWaitMs: config.echoWaitMs,
    onDisconnect: config.streamOnDisconnect,
    isOutage: isDatabaseOutage,
    metrics: services.telemetry.metrics,
    logger,
  });
  const alignment = createAlignmentService({ db, rounds, chatModel, models, jobs });
  return { alignment, scoringRequests, chat, logs: createLogsService({ db }) };
}
