import { appError } from '#src/errors.ts';
import { createConnectors } from '../adapters/connectors/connectors.ts';
import { createFairQueue } from '../adapters/fair-queue.ts';
import { observedConnectors } from '../adapters/telemetry/observed-ports.ts';
import { createConnectionConsentsService } from '../modules/connectors/connection-consents.service.ts';
import type { Connection, ConnectionCredentials, StoredKeys } from '../modules/connectors/connections.model.ts';
import { createConnectionsService } from '../modules/connectors/connections.service.ts';
import { consentAt } from '../modules/connectors/connector-access.ts';
import { createConnectorCredentials, createRefusalNote } from '../modules/connectors/connector-credentials.service.ts';
import { createGrantRevoker } from '../modules/connectors/grant-revoker.ts';
import { OauthStateModel } from '../modules/consents/consents.model.ts';
import { type ConsentFacts, createConsentsService } from '../modules/consents/consents.service.ts';
import { createOneTimeStates } from '../modules/consents/one-time-states.repository.ts';
import { createCredentialStore, createCredentialsService } from '../modules/credentials/credentials.service.ts';
import { createErasureService } from '../modules/erasure/erasure.service.ts';
import { createConnectionSyncsService } from '../modules/imports/connection-syncs.service.ts';
import { createFileImporter } from '../modules/imports/file-importer.ts';
import { createFolderPaths } from '../modules/imports/folder-paths.ts';
import { createImportStepsService } from '../modules/imports/import-steps.service.ts';
import { createImportsService } from '../modules/imports/imports.service.ts';
import { createRemoteListing } from '../modules/imports/remote-listing.ts';
import { createSyncsService } from '../modules/imports/syncs.service.ts';
import { createAccountDeletionService } from '../modules/members/account-deletion.service.ts';
import { createSyncSchedules } from '../temporal/sync-schedules.ts';
import type { AccountServices } from './account-services.ts';
import type { DocumentServices } from './document-services.ts';
import type { ExportServices } from './export-services.ts';
import type { SharedServices } from './shared-services.ts';

/** Queued browse requests of an organization count even if their clients have disconnected. */
const MAX_WAITING_TO_BROWSE = 64;

const tooManyBrowsing = () =>
  appError('rate_limited', {
    detail: `Your organization has ${MAX_WAITING_TO_BROWSE} browse requests waiting; no more are allowed.`,
    retryAfterSeconds: 5,
  });

/** Connections, imports and syncs; account deletion and erasure. */
export function createConnectorServices(
  services: SharedServices & AccountServices & DocumentServices & ExportServices,
) {
  const { config, db, logger, secrets, oauth, call, guardedAgent, temporal, orchestrator } = services;
  const { telemetry, jobs, limits, audit, folders, folderChanges, documents, deletion } = services;
  const { members, passwords, sessions, accessChanges, findActor } = services;

  const { frontendUrl, publicUrl, corsOrigins } = config.server;
  // The frontend's URL is never taken from the `Host` header: a client could have consent codes sent to another site.
  const home = frontendUrl ?? (publicUrl && new URL(publicUrl).origin);
  const states = createOneTimeStates<ConsentFacts>({ db, secrets, model: OauthStateModel });
  const consents = createConsentsService({ states, oauth, secrets, frontend: { home, origins: corsOrigins } });
  const access = observedConnectors(createConnectors(config.connectors, { call, agent: guardedAgent }), telemetry);
  const storedConnections = createCredentialStore<ConnectionCredentials>({ db, secrets, table: 'connections' });
  const revokeGrant = createGrantRevoker({ db, access, oauth, logger });
  const connectorCredentials = createConnectorCredentials({
    db,
    access,
    credentials: createCredentialsService<Connection, StoredKeys>({
      db,
      table: 'connections',
      stored: storedConnections,
      oauth,
      settingsOf: ({ provider }) => consentAt(access, provider).settings,
      onRefused: createRefusalNote({ audit }),
      onUnwanted: revokeGrant,
    }),
  });

  const schedules = createSyncSchedules(temporal);
  const connectionSyncs = createConnectionSyncsService({ db, schedules, folders, jobs, orchestrator, logger });
  const connecting = { access, stored: storedConnections, accessChanges, revokeGrant, audit, syncs: connectionSyncs };
  const importing = { db, credentials: connectorCredentials, documents, limits, jobs, findActor };
  const folderPaths = createFolderPaths({ db, folders, folderChanges });
  const connections = createConnectionsService({
    ...connecting,
    db,
    credentials: connectorCredentials,
    browseInTurn: createFairQueue(16, {
      maxRunningPerOwner: 2,
      bound: { maxWaitingPerOwner: MAX_WAITING_TO_BROWSE, refusal: tooManyBrowsing },
    }),
  });
  const { exports } = services;
  const erasure = createErasureService({ db, documents, deletion, jobs, orchestrator, connections, exports, audit });

  return {
    consents,
    storedConnections,
    connectorCredentials,
    connectionSyncs,
    connections,
    connectionConsents: createConnectionConsentsService({ ...connecting, consents }),
    imports: createImportsService({ db, folders, jobs, untilOver: services.jobWatch.untilOver }),
    importSteps: createImportStepsService({
      ...importing,
      listing: createRemoteListing(importing),
      importer: createFileImporter({ ...importing, uploads: services.uploads, folderPaths }),
    }),
    syncs: createSyncsService(importing),
    erasure,
    accountDeletion: createAccountDeletionService({
      db,
      passwords,
      members,
      sessions,
      accessChanges,
      erasure,
      jobs,
      audit,
      eraseAfterDays: config.eraseAfterDays,
    }),
  };
}

export type ConnectorServices = ReturnType<typeof createConnectorServices>;
