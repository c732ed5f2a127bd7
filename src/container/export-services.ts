import { deriveKey } from '../derived-key.ts';
import { createDownloadUrlTokens } from '../modules/documents/document-files.service.ts';
import { createExportStepsService } from '../modules/exports/export-steps.service.ts';
import { createExportsService, createOperatorExportsService } from '../modules/exports/exports.service.ts';
import { createExportVolumeWriter } from '../modules/exports/volume-writer.ts';

import type { AccountServices } from './account-services.ts';
import type { DocumentServices } from './document-services.ts';
import type { SharedServices } from './shared-services.ts';

export function createExportServices(services: SharedServices & AccountServices & DocumentServices) {
  const { config, db, blobs, originals, accounts, accessChanges, limits, jobs, orchestrator, audit } = services;
  const keepDays = config.exportKeepDays;
  const volumeWriter = createExportVolumeWriter({ db, blobs });
  const exports = createExportsService({
    db,
    blobs,
    originals,
    accessChanges,
    limits,
    jobs,
    orchestrator,
    audit,
    tokens: createDownloadUrlTokens(deriveKey(config.urlSigningKey, 'export-addresses')),
    downloadUrlSeconds: config.downloadUrlSeconds,
    keepDays,
  });
  return {
    operatorExports: createOperatorExportsService({ db, writer: volumeWriter, audit }),
    exports,
    exportSteps: createExportStepsService({ db, writer: volumeWriter, originals, accounts, jobs, exports, keepDays }),
  };
}

export type ExportServices = ReturnType<typeof createExportServices>;
