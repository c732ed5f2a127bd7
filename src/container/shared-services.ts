import { createFairWorkQueue } from '../adapters/limits.ts';
import { createModelCatalog } from '../adapters/models/model-catalog.ts';
import { embeddingSpaceId } from '../domain/documents/embedding.ts';
import { createAuditService } from '../modules/audit/audit.service.ts';
import { createFoldersService } from '../modules/folders/folders.service.ts';
import { createJobsService } from '../modules/jobs/jobs.service.ts';
import { createModelsService } from '../modules/models/models.service.ts';
import { createTierLimitsService } from '../modules/organization/tier-limits.service.ts';
import type { Infrastructure } from './infrastructure.ts';

export function createSharedServices(infrastructure: Infrastructure) {
  const { config, db, orchestrator, telemetry, logger } = infrastructure;
  const embeddingModel = embeddingSpaceId(config.models.embeddingModel, config.models.embeddingDimensions);
  const jobs = createJobsService({ db, orchestrator, tracing: telemetry.tracing, logger });
  return {
    ...infrastructure,
    embeddingModel,
    models: createModelsService({
      catalog: createModelCatalog(config.models),
      settings: { ...config.models, embeddingModel },
      logger,
    }),
    audit: createAuditService({ db, logger }),
    folders: createFoldersService({ db }),
    jobs,
    limits: createTierLimitsService({
      db,
      tierLimits: config.tierLimits,
      // Transactions that check tier limits use at most half of the database connections; the rest stays free for other
      // requests.
      inTurn: createFairWorkQueue(Math.ceil(config.database.poolSize / 2), { maxRunningPerOwner: 1 }),
    }),
  };
}

export type SharedServices = ReturnType<typeof createSharedServices>;
