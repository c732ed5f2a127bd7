import type { BlobStore } from '#src/ports/blob-store.ts';
import type { Db } from '#src/ports/database.ts';
import type { Orchestrator } from '#src/ports/orchestrator.ts';
import type { VectorStore } from '#src/ports/vector-store.ts';

export type InvariantId =
  | 'I1'
  | 'I2'
  | 'I3'
  | 'I4'
  | 'I5'
  | 'I6'
  | 'I7'
  | 'I8'
  | 'I9'
  | 'I10'
  | 'I11'
  | 'I12'
  | 'I13'
  | 'I14'
  | 'I15'
  | 'I16'
  | 'I17'
  | 'I18';

export type Violation = { invariant: InvariantId; detail: string; orgId: string; documentId?: string };

/** What a check found: of the violations the first ones, so that a broken installation does not fill the memory. */
export type InvariantReport = { invariant: InvariantId; title: string } & (
  | { outcome: 'checked'; checked: number; violations: number; first: Violation[] }
  | { outcome: 'failed'; error: unknown }
);

export type InvariantDeps = {
  db: Db;
  vectors: Pick<VectorStore, 'findExisting' | 'listGenerations' | 'countGenerations'>;
  blobs: Pick<BlobStore, 'list' | 'exists'>;
  orchestrator: Pick<Orchestrator, 'describe'>;
};

/** Times in seconds that a sound installation may need; tests that wait for calm themselves set them to 0. */
export type Patience = {
  /** What nothing refers to, and may still be on its way to be used or deleted. */
  orphanSeconds: number;
  /** A job whose run is over, or a job that waits to be started. */
  reconcileSeconds: number;
  dispatchSeconds: number;
  /** What somebody left behind, once it was time to erase it. */
  erasureSeconds: number;
};

export type InvariantCheck = {
  invariant: InvariantId;
  title: string;
  /** Tells every violation to `found`. @returns how many things were looked at */
  run(
    deps: InvariantDeps,
    patience: Patience,
    found: (violation: Omit<Violation, 'invariant'>) => void,
  ): Promise<number>;
};
