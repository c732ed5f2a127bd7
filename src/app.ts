import express, { type Express } from 'express';
import manifest from '../package.json' with { type: 'json' };
import { isDatabaseOutage } from './adapters/postgres/errors.ts';
import { chooseMetricsExposure, noopTelemetry } from './container/telemetry.ts';
import type { Container } from './container.ts';
import { deriveKey } from './derived-key.ts';
import { appError } from './errors.ts';
import { createCursorCodec } from './http/request/pagination.ts';
import { createUrlSignatures } from './http/request/url-signatures.ts';
import { createEventStreamRegistry } from './http/response/event-streams.ts';
import { createErrorHandler } from './http/response/problem.ts';
import { createDispatcher } from './http/routing/dispatch.ts';
import { createConcurrencyLimiter, createRateLimitCheck } from './http/routing/request-limits.ts';
import type { HttpRoute } from './http/routing/route.ts';
import { createRouteTable } from './http/routing/route-table.ts';
import { signedUrlRoutes } from './http/routing/signed-urls.ts';
import { createDocsPage } from './http/server/docs-page.ts';
import { createMetricsHandler } from './http/server/http-server.ts';
import {
  createCors,
  createRequestLog,
  createRequestTelemetry,
  createSecurityHeaders,
} from './http/server/middleware.ts';
import { createOpenApiDocument, openApiRoutes } from './http/server/openapi.ts';
import { openApiExamples } from './http/server/openapi-examples.ts';
import { healthRoutes, serviceInfoRoutes } from './http/server/service.routes.ts';
import { agentsRoutes } from './modules/agents/agents.routes.ts';
import { anchorWordsRoutes } from './modules/anchor-words/anchor-words.routes.ts';
import { apiKeysRoutes } from './modules/api-keys/api-keys.routes.ts';
import { authRoutes } from './modules/auth/auth.routes.ts';
import { chatRoutes } from './modules/chat/chat.routes.ts';
import { connectorsRoutes } from './modules/connectors/connectors.routes.ts';
import { chunksRoutes } from './modules/documents/chunks.routes.ts';
import {
  documentFilesRoutes,
  documentLinksRoutes,
  documentsRoutes,
  webImportRoutes,
} from './modules/documents/documents.routes.ts';
import { draftsRoutes } from './modules/drafts/drafts.routes.ts';
import { comparisonsRoutes } from './modules/evaluations/comparisons.routes.ts';
import { evaluationsRoutes } from './modules/evaluations/evaluations.routes.ts';
import { exportsRoutes } from './modules/exports/exports.routes.ts';
import { foldersRoutes } from './modules/folders/folders.routes.ts';
import { importsRoutes } from './modules/imports/imports.routes.ts';
import { jobsRoutes } from './modules/jobs/jobs.routes.ts';
import { logsRoutes } from './modules/logs/logs.routes.ts';
import { membersRoutes } from './modules/members/members.routes.ts';
import { modelsRoutes } from './modules/models/models.routes.ts';
import { organizationRoutes } from './modules/organization/organization.routes.ts';
import { avatarsRoutes, profileRoutes } from './modules/profile/profile.routes.ts';
import { ragRoutes } from './modules/rag/rag.routes.ts';
import { searchRoutes } from './modules/search/search.routes.ts';
import { teamsRoutes } from './modules/teams/teams.routes.ts';
import { toolsRoutes } from './modules/tools/tools.routes.ts';

const title = 'Agent Conversation Service';

/** How long a shutdown waits for open event streams to end by themselves. */
const drainMs = 20_000;

export type App = {
  express: Express;
  routes: readonly HttpRoute[];
  /** Makes the readiness probe `/readyz` answer 503; all other requests are served as before. */
  announceShutdown(): void;
  drain(): Promise<void>;
};

export function createApp(container: Container): App {
  const { config, db, logger, telemetry } = container;
  const { basePath, corsOrigins, trustProxy, publicUrl } = config.server;
  const streams = createEventStreamRegistry({
    activeSessions: (sessionIds) => container.auth.activeSessions(sessionIds),
    onWarning: (error) => logger.warn({ err: error }, 'checking the sessions of open event streams failed'),
  });
  telemetry.metrics.gauge('acs_open_streams', () => [{ labels: {}, value: streams.count() }]);
  const cursors = createCursorCodec(deriveKey(config.urlSigningKey, 'cursors'));
  let isShuttingDown = false;

  const signatures = createUrlSignatures({
    key: deriveKey(config.urlSigningKey, 'signed-urls'),
    lifetimeSeconds: config.downloadUrlSeconds,
  });
  const resourceRoutes: HttpRoute[] = [
    ...authRoutes(container.auth, container.passwords, container.sessions, container.sso, cursors),
    ...profileRoutes(container.profile),
    ...avatarsRoutes(container.avatars, container.profile),
    ...organizationRoutes(container.organizations),
    ...membersRoutes(container.members, container.accountDeletion),
    ...apiKeysRoutes(container.apiKeys, cursors),
    ...exportsRoutes(container.exports, cursors),
    ...teamsRoutes(container.teams, container.teamMembers),
    ...modelsRoutes(container.models),
    ...foldersRoutes(container.folders, container.folderChanges),
    ...documentsRoutes(container.documents, container.uploads, container.whenIngested),
    ...webImportRoutes(container.webImport, container.whenIngested),
    ...documentLinksRoutes(container.documentLinks),
    ...searchRoutes(container.search),
    ...documentFilesRoutes(container.documentFiles),
    ...chunksRoutes(container.documents),
    ...ragRoutes(container.rag),
    ...draftsRoutes(container.drafts, container.versionEvaluations),
    ...evaluationsRoutes(container.evaluations, config),
    ...comparisonsRoutes(container.comparisons, cursors),
    ...agentsRoutes(container.agents),
    ...toolsRoutes(container.toolCatalog, container.toolConnections),
    ...connectorsRoutes(container.connections, cursors),
    ...anchorWordsRoutes(container.anchorWords),
    ...chatRoutes(container.chat, cursors, { basePath }),
    ...importsRoutes(container.imports, container.syncs, cursors, config),
    ...logsRoutes(container.logs, cursors),
    ...jobsRoutes(container.jobRequests, container.jobWatch, container.jobFeed, cursors),
  ];
  const routes: HttpRoute[] = [
    ...resourceRoutes,
    ...signedUrlRoutes(resourceRoutes, signatures),
    ...healthRoutes({
      checks: {
        database: async () => (await db.raw('select 1')) !== undefined,
        workers: () => container.orchestrator.hasPollers(),
      },
      isShuttingDown: () => isShuttingDown,
    }),
    ...openApiRoutes(() =>
      createOpenApiDocument(
        routes,
        { basePath, title, version: manifest.version, description: manifest.description },
        openApiExamples,
      ),
    ),
    ...serviceInfoRoutes({ title, basePath }),
  ];

  const dispatch = createDispatcher({
    authenticate: container.authenticate,
    authenticateSession: container.authenticateSession,
    signatures,
    idempotency: container.idempotency,
    fingerprintKey: deriveKey(config.urlSigningKey, 'request-fingerprints'),
    rateLimit: createRateLimitCheck({ ...container.rateLimiters, limits: config.rateLimits }),
    concurrency: createConcurrencyLimiter(config.concurrency),
    readInTurn: container.readInTurn,
    publicUrl,
    streams,
    logger,
    isOutage: isDatabaseOutage,
  });

  const app = express();
  app.disable('x-powered-by').disable('etag').set('query parser', 'simple').set('trust proxy', trustProxy);
  app.use(createRequestLog(logger));
  if (telemetry !== noopTelemetry) app.use(createRequestTelemetry(telemetry));
  app.use(
    createSecurityHeaders({ contentSecurityPolicy: { useDefaults: false, directives: { defaultSrc: ["'none'"] } } }),
  );
  if (corsOrigins.length > 0) app.use(createCors(corsOrigins));
  app.use(basePath || '/', createRouteTable(routes, dispatch));
  app.use(`${basePath}/docs`, createDocsPage({ basePath, title }));
  if (telemetry !== noopTelemetry && chooseMetricsExposure(config) === 'main_port') {
    app.get(`${basePath}/metrics`, createMetricsHandler(telemetry.metrics));
  }
  app.use(() => {
    throw appError('not_found');
  });
  app.use(createErrorHandler({ logger, isOutage: isDatabaseOutage }));

  return {
    express: app,
    routes,
    announceShutdown: () => {
      isShuttingDown = true;
    },
    drain: () => {
      container.jobWatch.endWaits();
      return streams.drain(drainMs);
    },
  };
}
