import { appError } from '#src/errors.ts';
import { createConnectors } from '../adapters/connectors/connectors.ts';
import { createFairWorkQueue } from '../adapters/limits.ts';
import { observedConnectors } from '../adapters/telemetry/observed-ports.ts';
import { createApiKeysService } from '../modules/api-keys/api-keys.service.ts';
import { createArchivesService } from '../modules/archives/archives.service.ts';
import type { Connection, ConnectionCredentials, StoredS3Keys } from '../modules/connectors/connections.model.ts';
import { createConnectionsService } from '../modules/connectors/connections.service.ts';
import {
  createConnectorCredentials,
  createNeedsReauthRecorder,
  createOAuthGrantRevoker,
  requireOAuthProvider,
} from '../modules/connectors/connector-credentials.service.ts';
import { OauthStateModel } from '../modules/consents/consents.model.ts';
import { createOAuthConsentsService, type PendingOAuthConsent } from '../modules/consents/consents.service.ts';
import { createOAuthStateStore } from '../modules/consents/one-time-states.repository.ts';
import { createCredentialStore, createCredentialsService } from '../modules/credentials/credentials.service.ts';
import { createErasureService } from '../modules/erasure/erasure.service.ts';
import { createImportStepsService } from '../modules/imports/import-steps.service.ts';
import { createImportsService } from '../modules/imports/imports.service.ts';
import { createSyncsService } from '../modules/imports/syncs.service.ts';
import { createAccountDeletionService } from '../modules/members/account-deletion.service.ts';
import { createSyncSchedules } from '../temporal/schedules.ts';
import type { AccountServices } from './account-services.ts';
import type { DocumentServices } from './document-services.ts';
import type { ExportServices } from './export-services.ts';
import type { SharedServices } from './shared-services.ts';

/** Queued browse requests per organization, including those whose clients have disconnected. */
const MAX_WAITING_TO_BROWSE = 64;

const tooManyBrowsing = () =>
  appError('rate_limited', {
    detail: `Your organization has ${MAX_WAITING_TO_BROWSE} browse requests waiting, which is the limit. Try again in a few seconds.`,
    retryAfterSeconds: 5,
  });

export function createConnectorServices(
  services: SharedServices & AccountServices & DocumentServices & ExportServices,
) {
  const { config, db, logger, secrets, oauth, call, guardedAgent, temporal, orchestrator } = services;
  const { telemetry, jobs, limits, audit, folders, folderChanges, documents, deletion, uploads, exports } = services;
  const { accounts, members, teams, passwords, sessions, accessChanges, findActor } = services;
  const { blobs, converter, ingestion, documentLinks } = services;

  const { frontendUrl, publicUrl, corsOrigins } = config.server;
  // The frontend's URL is never taken from the `Host` header: an attacker could have OAuth consent codes sent to
  // another site.
  const home = frontendUrl ?? (publicUrl && new URL(publicUrl).origin);
  const states = createOAuthStateStore<PendingOAuthConsent>({ db, secrets, model: OauthStateModel });
  const consents = createOAuthConsentsService({ states, oauth, secrets, frontend: { home, origins: corsOrigins } });

  const access = observedConnectors(createConnectors(config.connectors, { call, agent: guardedAgent }), telemetry);
  const storedConnections = createCredentialStore<ConnectionCredentials>({ db, secrets, table: 'connections' });
  const revokeGrant = createOAuthGrantRevoker({ db, access, oauth, logger });
  const connectorCredentials = createConnectorCredentials({
    db,
    access,
    credentials: createCredentialsService<Connection, StoredS3Keys>({
      db,
      table: 'connections',
      stored: storedConnections,
      oauth,
      settingsOf: ({ provider }) => requireOAuthProvider(access, provider).settings,
      onRefused: createNeedsReauthRecorder({ audit }),
      onUnwanted: revokeGrant,
    }),
    browseQueue: createFairWorkQueue(16, {
      maxRunningPerOwner: 2,
      bound: { maxWaitingPerOwner: MAX_WAITING_TO_BROWSE, refusal: tooManyBrowsing },
    }),
  });

  const schedules = createSyncSchedules(temporal);
  const syncs = createSyncsService({ db, schedules, folders, jobs, orchestrator, findActor, logger });
  const connections = createConnectionsService({
    db,
    access,
    stored: storedConnections,
    credentials: connectorCredentials,
    consents,
    accessChanges,
    revokeGrant,
    syncs,
    audit,
  });
  const erasure = createErasureService({ db, documents, deletion, jobs, orchestrator, connections, exports, audit });

  const accountDeletion = createAccountDeletionService({
    db,
    passwords,
    members,
    sessions,
    accessChanges,
    erasure,
    jobs,
    audit,
    eraseAfterDays: config.eraseAfterDays,
  });

  return {
    consents,
    storedConnections,
    connectorCredentials,
    connections,
    syncs,
    imports: createImportsService({ db, folders, jobs, untilOver: services.jobWatch.untilOver }),
    importSteps: createImportStepsService({
      db,
      credentials: connectorCredentials,
      documents,
      uploads,
      folderChanges,
      limits,
      jobs,
      findActor,
    }),
    archives: createArchivesService({
      ...{ blobs, converter, ingestion, documents, documentLinks, folderChanges, uploads, jobs, findActor },
    }),
    erasure,
    accountDeletion,
    apiKeys: createApiKeysService({ db, accounts, teams, accessChanges, accountDeletion, audit }),
  };
}

export type ConnectorServices = ReturnType<typeof createConnectorServices>;
