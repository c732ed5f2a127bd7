import { createMaintenanceLock } from '../adapters/postgres/backup.ts';
import { migrateDatabase } from '../adapters/postgres/database.ts';
import { createBackupService } from '../modules/backup/backup.service.ts';
import { createRestoreService } from '../modules/backup/restore.service.ts';
import type { ConnectorServices } from './connector-services.ts';
import type { DocumentServices } from './document-services.ts';
import type { SharedServices } from './shared-services.ts';
import type { ToolServices } from './tool-services.ts';

export function createBackupServices(services: SharedServices & DocumentServices & ConnectorServices & ToolServices) {
  const { config, db, blobs, vectors, databaseDumps: dumps, embeddings } = services;
  const { storedConnections, storedToolConnections } = services;
  const withoutOthers = createMaintenanceLock(config.database.url);
  return {
    backups: createBackupService({ db, blobs, dumps, withoutOthers, vectorStore: config.vectors.store }),
    restores: createRestoreService({
      db,
      blobs,
      dumps,
      vectors,
      embeddings,
      withoutOthers,
      credentials: [storedConnections, storedToolConnections],
      migrate: async () => {
        await migrateDatabase(config.database.url, { isRestoring: true });
      },
    }),
  };
}
