import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pino, { type Logger } from 'pino';
import { createFilesystemBlobStore } from './adapters/blob/filesystem-blob-store.ts';
import { createS3BlobStore } from './adapters/blob/s3-blob-store.ts';
import { createConnectors } from './adapters/connectors/connectors.ts';
import { createConverter } from './adapters/converter/converter.ts';
import { pageTitle } from './adapters/converter/page-title.ts';
import { createGate } from './adapters/gate.ts';
import { createLogDestination } from './adapters/log-destination.ts';
import { createClamd } from './adapters/malware/clamd.ts';
import { createChatModel } from './adapters/models/chat-model.ts';
import { createEmbedder, createEmbedders } from './adapters/models/embedder.ts';
import { createModelCatalog } from './adapters/models/model-catalog.ts';
import { createParameterHabits } from './adapters/models/parameter-habits.ts';
import { createReranker } from './adapters/models/reranker.ts';
import { createOAuthClient } from './adapters/oauth/oauth-client.ts';
import { createArgon2Hasher } from './adapters/passwords/argon2-hasher.ts';
import { createPdfRenderer } from './adapters/pdf-renderer/pdf-renderer.ts';
import { createPgCallLimiter } from './adapters/postgres/call-limiter.ts';
import { createDatabase } from './adapters/postgres/database.ts';
import { createIdempotencyStore } from './adapters/postgres/idempotency-keys.ts';
import { isOutage } from './adapters/postgres/outage.ts';
import { createPgRateLimiter } from './adapters/postgres/rate-limiter.ts';
import { createSecretBox } from './adapters/secrets/secret-box.ts';
import { createChunker } from './adapters/text/chunker.ts';
import { createTextAnalyzer } from './adapters/text/text-analyzer.ts';
import { createTokenCounter } from './adapters/text/token-counter.ts';
import { createTopicWords } from './adapters/text/topic-words.ts';
import { createRs256AccessTokens } from './adapters/tokens/rs256-access-tokens.ts';
import { createBraveKeyCheck, createWebSearch } from './adapters/tools/brave-search.ts';
import { createBuiltInExecutors } from './adapters/tools/built-in-executors.ts';
import { createCreateEvent, createListEvents, googleOAuth } from './adapters/tools/google-calendar.ts';
import { createPgVectorStore } from './adapters/vectors/pgvector.ts';
import { createQdrantVectorStore } from './adapters/vectors/qdrant.ts';
import { createGuardedAgent } from './adapters/web/guarded-agent.ts';
import { createGuardedFetch } from './adapters/web/guarded-fetch.ts';
import { createProviderCaller } from './adapters/web/provider-caller.ts';
import type { Config } from './config.ts';
import { derivedKey } from './derived-key.ts';
import { embeddingSpace } from './domain/embedding-space.ts';
import { defaultRagConfig } from './domain/rag-config.ts';
import { type AgentsService, createAgentsService } from './modules/agents/agents.service.ts';
import { createAdjudicator } from './modules/alignment/adjudicator.ts';
import { type AlignmentService, createAlignmentService } from './modules/alignment/alignment.service.ts';
import { createRoundMeasurer } from './modules/alignment/round-measurer.ts';
import { type AnchorWordsService, createAnchorWordsService } from './modules/anchor-words/anchor-words.service.ts';
import { type AnchoringService, createAnchoringService } from './modules/anchor-words/anchoring.service.ts';
import { createCandidateFinder } from './modules/anchor-words/candidate-finder.ts';
import { createWordProposer } from './modules/anchor-words/word-proposer.ts';
import { createAuditService } from './modules/audit/audit.service.ts';
import { createAccountsService } from './modules/auth/accounts.service.ts';
import { type AuthService, createAuthService } from './modules/auth/auth.service.ts';
import { createPasswordsService, type PasswordsService } from './modules/auth/passwords.service.ts';
import { createSessionsService, type SessionsService } from './modules/auth/sessions.service.ts';
import { createAnswerWriter } from './modules/chat/answer-writer.ts';
import { type ChatService, createChatService } from './modules/chat/chat.service.ts';
import { createCiter } from './modules/chat/citer.ts';
import { createRoundOpener } from './modules/chat/round-opener.ts';
import { createToolChooser } from './modules/chat/round-tools.ts';
import { createToolLoop } from './modules/chat/tool-loop.ts';
import {
  type ConnectionConsentsService,
  createConnectionConsentsService,
} from './modules/connectors/connection-consents.service.ts';
import type { Connection, ConnectionCredentials, StoredKeys } from './modules/connectors/connections.model.ts';
import { type ConnectionsService, createConnectionsService } from './modules/connectors/connections.service.ts';
import { consentAt } from './modules/connectors/connector-access.ts';
import {
  type ConnectorCredentialsService,
  createConnectorCredentials,
  createRefusalNote,
} from './modules/connectors/connector-credentials.service.ts';
import { createGrantRevoker } from './modules/connectors/grant-revoker.ts';
import { type ConsentsService, createConsentsService } from './modules/consents/consents.service.ts';
import { createCredentialKeeper } from './modules/credentials/credential-keeper.service.ts';
import {
  createStoredCredentials,
  type StoredCredentialsService,
} from './modules/credentials/stored-credentials.service.ts';
import { createDeletionService, type DeletionService } from './modules/deletion/deletion.service.ts';
import { createDocumentFilesService, type DocumentFilesService } from './modules/documents/document-files.service.ts';
import { createDocumentLinksService, type DocumentLinksService } from './modules/documents/document-links.service.ts';
import { createDocumentWebImport, type DocumentWebImport } from './modules/documents/document-web-import.ts';
import { createDocumentsService, type DocumentsService } from './modules/documents/documents.service.ts';
import { createFileTokens } from './modules/documents/file-tokens.ts';
import { createFolderContentsService } from './modules/documents/folder-contents.service.ts';
import { createDraftVersionsService, type DraftVersionsService } from './modules/drafts/draft-versions.service.ts';
import { createDraftsService, type DraftsService } from './modules/drafts/drafts.service.ts';
import { createEmbeddingsService, type EmbeddingsService } from './modules/embeddings/embeddings.service.ts';
import { createErasureService, type ErasureService } from './modules/erasure/erasure.service.ts';
import { createAnswerer } from './modules/evaluations/answerer.ts';
import { createEvaluationOpener } from './modules/evaluations/evaluation-opener.ts';
import {
  createEvaluationStepsService,
  type EvaluationStepsService,
} from './modules/evaluations/evaluation-steps.service.ts';
import { createEvaluationWaiter, type EvaluationWaiter } from './modules/evaluations/evaluation-waiter.ts';
import { createEvaluationsService, type EvaluationsService } from './modules/evaluations/evaluations.service.ts';
import { createJudge } from './modules/evaluations/judge.ts';
import {
  createVersionEvaluationsService,
  type VersionEvaluationsService,
} from './modules/evaluations/version-evaluations.service.ts';
import { createFolderChangesService, type FolderChangesService } from './modules/folders/folder-changes.service.ts';
import { createFoldersService, type FoldersService } from './modules/folders/folders.service.ts';
import {
  type ConnectionSyncsService,
  createConnectionSyncsService,
} from './modules/imports/connection-syncs.service.ts';
import { createFileImporter } from './modules/imports/file-importer.ts';
import { createFolderPaths } from './modules/imports/folder-paths.ts';
import { createImportStepsService, type ImportStepsService } from './modules/imports/import-steps.service.ts';
import { createImportsService, type ImportsService } from './modules/imports/imports.service.ts';
import { createRemoteListing } from './modules/imports/remote-listing.ts';
import { createSyncsService, type SyncsService } from './modules/imports/syncs.service.ts';
import { createDocumentCutterService } from './modules/ingestion/document-cutter.service.ts';
import { createGenerationsService } from './modules/ingestion/generations.service.ts';
import { createIngestionService, type IngestionService } from './modules/ingestion/ingestion.service.ts';
import { createSituationsService, type SituationsService } from './modules/ingestion/situations.service.ts';
import { createWindowEmbedder } from './modules/ingestion/window-embedder.ts';
import { createJobMovesService, type JobMovesService } from './modules/jobs/job-moves.service.ts';
import { createJobWatch, type JobWatch } from './modules/jobs/job-watch.ts';
import { createJobsService, type JobsService } from './modules/jobs/jobs.service.ts';
import { createLeavingService, type LeavingService } from './modules/leaving/leaving.service.ts';
import { createLogsService, type LogsService } from './modules/logs/logs.service.ts';
import { createMembersService, type MembersService } from './modules/members/members.service.ts';
import { createUsersService, type UsersService } from './modules/members/users.service.ts';
import { createModelsService, type ModelsService } from './modules/models/models.service.ts';
import {
  type AccessChangesService,
  createAccessChangesService,
} from './modules/organization/access-changes.service.ts';
import { createOrganizationService, type OrganizationService } from './modules/organization/organization.service.ts';
import { createTierLimitsService } from './modules/organization/tier-limits.service.ts';
import { createOriginalsService, type OriginalsService } from './modules/originals/originals.service.ts';
import { createPreviewsService, type PreviewsService } from './modules/previews/previews.service.ts';
import { createProfileService, type ProfileService } from './modules/profile/profile.service.ts';
import { type ChunkPreviewsService, createChunkPreviewsService } from './modules/rag/chunk-previews.service.ts';
import { createRagService, type RagService } from './modules/rag/rag.service.ts';
import { createReembeddingService, type ReembeddingService } from './modules/reembedding/reembedding.service.ts';
import { createPassageRanker } from './modules/retrieval/passage-ranker.ts';
import { createRetrievalService, type RetrievalService } from './modules/retrieval/retrieval.service.ts';
import { createSearchService, type SearchService } from './modules/search/search.service.ts';
import { createInvariantChecks, type InvariantChecks } from './modules/store-audit/invariant-checks.ts';
import { createStoreAuditService, type StoreAuditService } from './modules/store-audit/store-audit.service.ts';
import { createTeamMembersService, type TeamMembersService } from './modules/teams/team-members.service.ts';
import { createTeamsService, type TeamsService } from './modules/teams/teams.service.ts';
import { createToolCatalogService, type ToolCatalogService } from './modules/tools/tool-catalog.service.ts';
import type { ApiKey, Credentials, ToolConnection } from './modules/tools/tool-connections.model.ts';
import { createToolConnectionsService, type ToolConnectionsService } from './modules/tools/tool-connections.service.ts';
import { createToolCredentials, toolGrants } from './modules/tools/tool-credentials.service.ts';
import type { AccessTokens } from './ports/access-tokens.ts';
import type { BlobStore } from './ports/blob-store.ts';
import type { Db } from './ports/database.ts';
import type { IdempotencyStore } from './ports/idempotency-store.ts';
import type { Orchestrator } from './ports/orchestrator.ts';
import type { RateLimiter } from './ports/rate-limiter.ts';
import type { ToolExecutor } from './ports/tool-executor.ts';
import type { VectorStore } from './ports/vector-store.ts';
import { createTemporalConnection, type TemporalConnection } from './temporal/connection.ts';
import { createOrchestrator } from './temporal/gateway.ts';
import { createSyncSchedules } from './temporal/sync-schedules.ts';

/** Everything that the API and the workers use, constructed once. Nothing connects before its first use. */
export type Container = {
  config: Config;
  logger: Logger;
  db: Db;
  idempotency: IdempotencyStore;
  rateLimiter: RateLimiter;
  temporal: TemporalConnection;
  orchestrator: Orchestrator;
  blobs: BlobStore;
  originals: OriginalsService;
  vectors: VectorStore;
  accessTokens: AccessTokens;
  sessions: SessionsService;
  auth: AuthService;
  passwords: PasswordsService;
  organizations: OrganizationService;
  accessChanges: AccessChangesService;
  members: MembersService;
  users: UsersService;
  leaving: LeavingService;
  teams: TeamsService;
  teamMembers: TeamMembersService;
  profile: ProfileService;
  models: ModelsService;
  jobs: JobsService;
  jobMoves: JobMovesService;
  jobWatch: JobWatch;
  folders: FoldersService;
  folderChanges: FolderChangesService;
  documents: DocumentsService;
  webImport: DocumentWebImport;
  documentFiles: DocumentFilesService;
  documentLinks: DocumentLinksService;
  rag: RagService;
  chunkPreviews: ChunkPreviewsService;
  drafts: DraftsService;
  draftVersions: DraftVersionsService;
  agents: AgentsService;
  evaluations: EvaluationsService;
  versionEvaluations: VersionEvaluationsService;
  evaluationSteps: EvaluationStepsService;
  evaluationWaiter: EvaluationWaiter;
  consents: ConsentsService;
  connections: ConnectionsService;
  connectionConsents: ConnectionConsentsService;
  connectorCredentials: ConnectorCredentialsService;
  connectionSyncs: ConnectionSyncsService;
  imports: ImportsService;
  importSteps: ImportStepsService;
  syncs: SyncsService;
  storedConnections: StoredCredentialsService<ConnectionCredentials>;
  storedToolConnections: StoredCredentialsService<Credentials>;
  toolCatalog: ToolCatalogService;
  toolConnections: ToolConnectionsService;
  /** By the ids of the tools. */
  providerTools: Readonly<Record<string, ToolExecutor>>;
  anchoring: AnchoringService;
  anchorWords: AnchorWordsService;
  embeddings: EmbeddingsService;
  situations: SituationsService;
  ingestion: IngestionService;
  previews: PreviewsService;
  reembedding: ReembeddingService;
  deletion: DeletionService;
  erasure: ErasureService;
  alignment: AlignmentService;
  retrieval: RetrievalService;
  search: SearchService;
  chat: ChatService;
  logs: LogsService;
  invariants: InvariantChecks;
  storeAudit: StoreAuditService;
  /** Gives back what was opened, in the reverse order. */
  close(): Promise<void>;
};

/** The only place that constructs things. `role` names the process in logs and in the database's list of sessions. */
export function createContainer(config: Config, role: 'api' | 'worker' | 'admin' | 'test'): Container {
  const logger = pino(
    {
      level: config.server.logLevel,
      base: { role },
      redact: {
        paths: ['req.headers.authorization', 'req.headers.cookie', '*.password', '*.refresh_token', '*.access_token'],
        censor: '[redacted]',
      },
    },
    createLogDestination(process.stdout.fd),
  );
  const db = createDatabase({
    url: config.database.url,
    maxConnections: config.database.poolSize,
    applicationName: role,
    onWarning: (message) => logger.warn(message),
  });

  const idempotency = createIdempotencyStore(db);
  const rateLimiter = createPgRateLimiter(db);
  const temporal = createTemporalConnection(config.temporal);
  const orchestrator = createOrchestrator(temporal, config.temporal);

  const blobs =
    config.blobs.store === 's3'
      ? createS3BlobStore({ ...config.blobs, tempDir: tmpdir() })
      : createFilesystemBlobStore(config.blobs);
  const renderer = createPdfRenderer(config.renderer, { tempDir: tmpdir() });
  const toolsDir = config.toolsDir ?? join(config.dataDir, 'tools');
  const { languages: ocrLanguages, maxPages: ocrPages } = config.ocr;
  const converter = createConverter({ toolsDir, tempDir: tmpdir(), renderer, ocrLanguages, limits: { ocrPages } });
  const tokens = createTokenCounter();
  const analyze = createTextAnalyzer();
  const chunker = createChunker({ tokens, analyze });
  const estimateTokens = (text: string) => tokens.count(text);
  const embedders = createEmbedders({ ...config.models, estimateTokens });
  const embeddingModel = embeddingSpace(config.models.embeddingModel, config.models.embeddingDimensions);
  const vectors = config.vectors.store === 'qdrant' ? createQdrantVectorStore(config.vectors) : createPgVectorStore(db);

  const models = createModelsService({
    catalog: createModelCatalog(config.models),
    settings: { ...config.models, embeddingModel },
    logger,
  });
  const folders = createFoldersService({ db });
  const jobs = createJobsService({ db, orchestrator, logger });
  const limits = createTierLimitsService({ db, tierLimits: config.tierLimits });
  const passwordHasher = createArgon2Hasher();
  const accessTokens = createRs256AccessTokens({
    ...config.auth,
    lifetimeSeconds: config.auth.accessTokenSeconds,
  });
  const audit = createAuditService({ logger });
  const sessions = createSessionsService({ db, audit });
  const accounts = createAccountsService({ db, passwords: passwordHasher, folders });
  const auth = createAuthService({ db, passwords: passwordHasher, accessTokens, accounts, sessions, audit });
  const passwords = createPasswordsService({ db, passwords: passwordHasher, sessions, audit });
  const accessChanges = createAccessChangesService({ db, accounts, limits });
  const organizations = createOrganizationService({ db, folders, accessChanges, audit });
  const teams = createTeamsService({ db, organizations, folders, accessChanges, audit });
  const members = createMembersService({ db, accounts, organizations, limits, teams, accessChanges, audit });
  const users = createUsersService({ db, members, passwords: passwordHasher, sessions, accessChanges, audit });
  const teamMembers = createTeamMembersService({ db, organizations, teams, members, accessChanges, audit });
  const profile = createProfileService({ db });

  const originals = createOriginalsService({ db, blobs, logger, inTurn: createGate(2) });
  const previews = createPreviewsService({ db, blobs, originals, renderer, converter, jobs, tempDir: tmpdir() });
  const embeddings = createEmbeddingsService({ db, embedders });
  const generations = createGenerationsService({ jobs, orchestrator, logger });
  const deletion = createDeletionService({ db, originals, embeddings, vectors, jobs, orchestrator });
  const defaultConfig = async () =>
    defaultRagConfig({
      embeddingModel,
      hasReranker: (await models.reranker('cross_encoder')) !== null,
    });
  const documents = createDocumentsService({
    db,
    originals,
    vectors,
    jobs,
    generations,
    deletion,
    folders,
    limits,
    logger,
    defaultConfig,
  });
  const documentLinks = createDocumentLinksService({ db, folders, publisher: documents });
  const contents = createFolderContentsService({ deletion });
  const folderChanges = createFolderChangesService({ db, folders, contents });
  const documentFiles = createDocumentFilesService({
    db,
    blobs,
    previews,
    tokens: createFileTokens(derivedKey(config.urlSigningKey, 'file-addresses')),
    downloadUrlSeconds: config.downloadUrlSeconds,
  });
  const guardedAgent = createGuardedAgent({ allow: config.egressAllow });
  const web = createGuardedFetch({ agent: guardedAgent });
  const webImport = createDocumentWebImport({ web, documents, limits, pageTitle });
  const schedules = createSyncSchedules(temporal);
  const connectionSyncs = createConnectionSyncsService({ db, schedules, folders, jobs, orchestrator, logger });
  const erasure = createErasureService({ db, documents, deletion, jobs, orchestrator, connectionSyncs, audit });
  const leaving = createLeavingService({
    passwords,
    members,
    sessions,
    accessChanges,
    erasure,
    jobs,
    audit,
    eraseAfterDays: config.eraseAfterDays,
  });
  const drafts = createDraftsService({ db, limits, teams, models });
  const draftVersions = createDraftVersionsService({ db, drafts, limits, models });
  const chatModel = createChatModel(config.models, undefined, createParameterHabits({ logger }));
  const alignmentEmbedder = createEmbedder({ ...config.models.alignment, estimateTokens });
  const anchorCandidates = {
    propose: createWordProposer({ chatModel }),
    find: createCandidateFinder({
      embedder: alignmentEmbedder,
      topicWords: createTopicWords(config.models.alignment),
      analyze,
    }),
  };
  const anchoring = createAnchoringService({ db, jobs, ...anchorCandidates, logger });
  const call = createProviderCaller({ agent: guardedAgent });
  const oauth = createOAuthClient({ call });
  const secrets = createSecretBox(config.encryptionKeys);
  const { braveSearch, googleCalendar } = config.providers;
  const access = {
    brave_search: { kind: 'api_key', check: createBraveKeyCheck({ call, ...braveSearch }) },
    google_calendar: {
      kind: 'oauth',
      settings: googleCalendar.client && googleOAuth(googleCalendar.baseUrl, googleCalendar.client),
    },
  } as const;
  const frontend = { frontendUrl: config.server.frontendUrl, origins: config.server.corsOrigins };
  const consents = createConsentsService({ db, oauth, secrets, frontend });
  const storedToolConnections = createStoredCredentials<Credentials>({ db, secrets, table: 'tool_connections' });
  const connectorAccess = createConnectors(config.connectors, { call, agent: guardedAgent });
  const storedConnections = createStoredCredentials<ConnectionCredentials>({ db, secrets, table: 'connections' });
  const revokeGrant = createGrantRevoker({ db, access: connectorAccess, oauth, logger });
  const connectorCredentials = createConnectorCredentials({
    db,
    access: connectorAccess,
    keeper: createCredentialKeeper<Connection, StoredKeys>({
      db,
      table: 'connections',
      stored: storedConnections,
      oauth,
      settingsOf: ({ provider }) => consentAt(connectorAccess, provider).settings,
      onRefused: createRefusalNote({ audit }),
      onUnwanted: revokeGrant,
    }),
  });
  const findActor = (userId: string) => auth.findActor(userId);
  const importing = { db, credentials: connectorCredentials, documents, limits, jobs, findActor };
  const folderPaths = createFolderPaths({ db, folders, folderChanges });
  const importSteps = createImportStepsService({
    ...importing,
    listing: createRemoteListing(importing),
    importer: createFileImporter({ ...importing, folderPaths }),
  });
  const syncs = createSyncsService(importing);
  const connecting = { access: connectorAccess, stored: storedConnections, accessChanges, revokeGrant, audit };
  const connections = createConnectionsService({
    ...connecting,
    db,
    credentials: connectorCredentials,
    syncs: connectionSyncs,
  });
  const connectionConsents = createConnectionConsentsService({ ...connecting, consents, syncs: connectionSyncs });
  const toolCatalog = createToolCatalogService({
    db,
    access,
    switchedOff: config.httpRequestAllow.length === 0 ? ['http.request'] : [],
  });
  const toolConnections = createToolConnectionsService({
    db,
    access,
    secrets: storedToolConnections,
    oauth,
    consents,
    accessChanges,
    audit,
    logger,
  });
  const toolKeeper = createCredentialKeeper<ToolConnection, ApiKey>({
    db,
    table: 'tool_connections',
    stored: storedToolConnections,
    oauth,
    ...toolGrants({ db, oauth, access, audit, logger }),
  });
  const credentials = createToolCredentials({ db, keeper: toolKeeper });
  const calendar = { call, credentials, baseUrl: googleCalendar.baseUrl };
  const providerTools = {
    'web.search': createWebSearch({ call, credentials, ...braveSearch }),
    'calendar.list_events': createListEvents(calendar),
    'calendar.create_event': createCreateEvent(calendar),
  };
  const agents = createAgentsService({
    db,
    versions: draftVersions,
    limits,
    teams,
    models,
    tools: toolCatalog,
    anchoring,
    jobs,
  });
  const situations = createSituationsService({
    db,
    chatModel,
    models,
    tokens,
    model: config.models.contextualModel,
  });
  const evaluationWaiter = createEvaluationWaiter({ jobs });
  const imports = createImportsService({ db, folders, jobs, untilOver: evaluationWaiter.untilOver });
  const evaluating = {
    db,
    drafts,
    versions: draftVersions,
    limits,
    models,
    jobs,
    openRun: createEvaluationOpener({ jobs, logger }),
    waiter: evaluationWaiter,
  };
  const evaluations = createEvaluationsService(evaluating);
  const versionEvaluations = createVersionEvaluationsService(evaluating);
  const judgeNonceKey = derivedKey(config.urlSigningKey, 'judged-texts');
  const evaluationSteps = createEvaluationStepsService({
    db,
    chatModel,
    limiter: createPgCallLimiter(db),
    createAnswerer: (paced) => createAnswerer({ chatModel: paced, models, tokens }),
    createJudge: (paced) => createJudge({ chatModel: paced, models, counter: tokens, nonceKey: judgeNonceKey }),
    models,
    jobs,
  });
  const cutter = createDocumentCutterService({ chunker, situations });
  const ingestion = createIngestionService({
    db,
    blobs,
    scanner: config.clamdAddress === null ? null : createClamd({ address: config.clamdAddress }),
    originals,
    converter,
    embeddings,
    windows: createWindowEmbedder({ chunker, embeddings }),
    cutter,
    situations,
    previews,
    vectors,
    jobs,
    orchestrator,
  });
  const reembedding = createReembeddingService({ db, documents, generations, jobs, models, orchestrator });
  const rag = createRagService({ db, documents, generations, models });

  const chunkPreviews = createChunkPreviewsService({
    documents,
    cutter,
    situations,
    embedders,
    models,
    defaultConfig,
  });

  const alignment = createAlignmentService({
    db,
    rounds: createRoundMeasurer({
      embedder: alignmentEmbedder,
      analyze,
      adjudicate: config.alignmentAdjudication === 'chat_model' ? createAdjudicator({ chatModel, logger }) : null,
      logger,
    }),
    chatModel,
    jobs,
  });
  const rank = createPassageRanker({
    rerankers: { crossEncoder: createReranker(config.models.reranker), chatProvider: createReranker(config.models) },
    chatModel,
    models,
  });
  // Of each leg, so that searches leave a fifth of the connections for all else.
  const searchesAtOnce = Math.max(1, Math.floor(config.database.poolSize * 0.4));
  const inTurn = { words: createGate(searchesAtOnce), vectors: createGate(searchesAtOnce) };
  const retrieval = createRetrievalService({ db, vectors, embedders, analyze, rank, models, logger, inTurn });
  const anchorWords = createAnchorWordsService({ agents, models, retrieval, ...anchorCandidates, logger });
  const search = createSearchService({ db, retrieval, analyze, inTurn: inTurn.words });
  const { httpRequestAllow } = config;
  const ownTools = createBuiltInExecutors({ web, converter, tempDir: tmpdir(), httpRequestAllow });
  const executors = new Map([...ownTools, ...Object.entries(providerTools)]);
  const chat = createChatService({
    db,
    openRound: createRoundOpener({ db, teams, models, tokenCounter: tokens }),
    writeAnswer: createAnswerWriter({
      db,
      askModel: createToolLoop({ chatModel, tokenCounter: tokens }),
      chooseTools: createToolChooser({ toolCatalog, executors, retrieval, models }),
      retrieval,
      alignment,
      models,
      cite: createCiter({ retrieval, embedders, vectors, analyze, logger }),
      tokenCounter: tokens,
      audit,
      logger,
    }),
    retrieval,
    alignment,
    accounts: auth,
    echoWaitMs: config.echoWaitMs,
    onDisconnect: config.streamOnDisconnect,
    isOutage,
    logger,
  });

  const invariants = createInvariantChecks({ db, vectors, blobs, orchestrator });
  const storeAudit = createStoreAuditService({ db, vectors, blobs, originals, deletion, jobs, generations, logger });

  const jobMoves = createJobMovesService({ db, orchestrator, jobs });
  const jobWatch = createJobWatch({ jobs, findActor: (userId) => auth.findActor(userId) });

  return {
    config,
    logger,
    db,
    idempotency,
    rateLimiter,
    temporal,
    orchestrator,
    blobs,
    originals,
    vectors,
    accessTokens,
    sessions,
    auth,
    passwords,
    organizations,
    accessChanges,
    members,
    users,
    leaving,
    teams,
    teamMembers,
    profile,
    models,
    jobs,
    jobMoves,
    jobWatch,
    folders,
    folderChanges,
    documents,
    webImport,
    documentFiles,
    documentLinks,
    rag,
    chunkPreviews,
    drafts,
    draftVersions,
    agents,
    evaluations,
    versionEvaluations,
    evaluationSteps,
    evaluationWaiter,
    consents,
    connections,
    connectionConsents,
    connectorCredentials,
    connectionSyncs,
    imports,
    importSteps,
    syncs,
    storedConnections,
    storedToolConnections,
    toolCatalog,
    toolConnections,
    providerTools,
    anchoring,
    anchorWords,
    embeddings,
    situations,
    ingestion,
    previews,
    reembedding,
    deletion,
    erasure,
    alignment,
    retrieval,
    search,
    chat,
    logs: createLogsService({ db }),
    invariants,
    storeAudit,
    close: async () => {
      await chat.drain(0);
      await temporal.close();
      await db.destroy();
    },
  };
}
