import { googleOAuthProvider } from '../adapters/providers.ts';
import { createBraveKeyCheck, createWebSearchTool } from '../adapters/tools/brave-search.ts';
import { createBuiltInExecutors } from '../adapters/tools/built-in-executors.ts';
import { createCreateEventTool, createListEventsTool } from '../adapters/tools/google-calendar.ts';
import { createCredentialStore, createCredentialsService } from '../modules/credentials/credentials.service.ts';
import { createToolCatalogService } from '../modules/tools/tool-catalog.service.ts';
import type {
  ApiKeyCredentials,
  ToolConnection,
  ToolProviderCredentials,
} from '../modules/tools/tool-connections.model.ts';
import {
  createToolConnectionsService,
  createToolCredentialCallbacks,
  createToolCredentials,
} from '../modules/tools/tool-connections.service.ts';
import type { ToolExecutor } from '../ports/tools.ts';
import type { AccountServices } from './account-services.ts';
import type { ConnectorServices } from './connector-services.ts';
import type { SharedServices } from './shared-services.ts';

export function createToolServices(services: SharedServices & AccountServices & ConnectorServices) {
  const { config, db, logger, audit, secrets, oauth, call, consents, accessChanges } = services;
  const { web, converter, tempDir, sandbox } = services;
  const { braveSearch, googleCalendar } = config.providers;
  const { httpRequestAllow } = config;

  const access = {
    brave_search: { kind: 'api_key', check: createBraveKeyCheck({ call, ...braveSearch }) },
    google_calendar: {
      kind: 'oauth',
      settings: googleCalendar.client && googleOAuthProvider(googleCalendar.baseUrl, googleCalendar.client),
    },
  } as const;
  const storedToolConnections = createCredentialStore<ToolProviderCredentials>({
    db,
    secrets,
    table: 'tool_connections',
  });
  const credentialsService = createCredentialsService<ToolConnection, ApiKeyCredentials>({
    db,
    table: 'tool_connections',
    stored: storedToolConnections,
    oauth,
    ...createToolCredentialCallbacks({ db, oauth, access, audit, logger }),
  });
  const credentials = createToolCredentials({ db, credentials: credentialsService });
  const calendar = { call, credentials, baseUrl: googleCalendar.baseUrl };
  const providerTools: Readonly<Record<string, ToolExecutor>> = {
    'web.search': createWebSearchTool({ call, credentials, ...braveSearch }),
    'calendar.list_events': createListEventsTool(calendar),
    'calendar.create_event': createCreateEventTool(calendar),
  };
  const ownTools = createBuiltInExecutors({ web, converter, tempDir, sandbox, httpRequestAllow });

  return {
    storedToolConnections,
    providerTools,
    executors: new Map([...ownTools, ...Object.entries(providerTools)]),
    toolCatalog: createToolCatalogService({
      db,
      access,
      switchedOff: httpRequestAllow.length === 0 ? ['http.request'] : [],
    }),
    toolConnections: createToolConnectionsService({
      db,
      access,
      secrets: storedToolConnections,
      oauth,
      consents,
      accessChanges,
      audit,
      logger,
    }),
  };
}

export type ToolServices = ReturnType<typeof createToolServices>;
