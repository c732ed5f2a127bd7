import type { Config } from './config.ts';
import { createAccountServices } from './container/account-services.ts';
import { createAgentServices } from './container/agent-services.ts';
import { createBackupServices } from './container/backup-services.ts';
import { createChatServices } from './container/chat-services.ts';
import { createConnectorServices } from './container/connector-services.ts';
import { createDocumentServices } from './container/document-services.ts';
import { createExportServices } from './container/export-services.ts';
import { createInfrastructure, type ProcessRole } from './container/infrastructure.ts';
import { createSearchServices } from './container/search-services.ts';
import { createSharedServices } from './container/shared-services.ts';
import { noopTelemetry } from './container/telemetry.ts';
import { createToolServices } from './container/tool-services.ts';
import { createInvariantChecks } from './modules/store-audit/invariants.ts';
import type { Telemetry } from './ports/telemetry.ts';

/** Composition root of API and workers: constructs all adapters and services. Adapters connect at their first use. */
export function createContainer(config: Config, role: ProcessRole, telemetry: Telemetry = noopTelemetry) {
  const shared = createSharedServices(createInfrastructure(config, role, telemetry));
  const accounts = { ...shared, ...createAccountServices(shared) };
  const documents = { ...accounts, ...createDocumentServices(accounts) };
  const exports = { ...documents, ...createExportServices(documents) };
  const connectors = { ...exports, ...createConnectorServices(exports) };
  const search = { ...connectors, ...createSearchServices(shared) };
  const tools = { ...search, ...createToolServices(search) };
  const { db, vectors, blobs, orchestrator, temporal } = shared;
  const { chat, ...conversations } = createChatServices(tools);

  return {
    ...tools,
    ...createAgentServices(tools),
    ...conversations,
    ...createBackupServices(tools),
    chat,
    invariants: createInvariantChecks({ db, vectors, blobs, orchestrator }),
    close: async () => {
      await chat.drain(0);
      await temporal.close();
      await db.destroy();
      await telemetry.tracing.close();
    },
  };
}

export type Container = ReturnType<typeof createContainer>;
