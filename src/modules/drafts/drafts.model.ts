import type { DraftFields } from '#src/domain/draft-fields.ts';
import type { EvalStatus } from '#src/domain/judging/eval-status.ts';
import type { Visibility } from '#src/domain/visibility.ts';

/** A draft has no fields of its own but who may see it: what it says stands in its versions. */
export type Draft = {
  id: string;
  orgId: string;
  visibility: Visibility;
  teamIds: string[];
  acl: string[];
  headVersionId: string;
  nextVersionNumber: number;
  createdBy: string;
  createdAt: Date;
  updatedAt: Date;
};

export type DraftView = Draft & { createdByName: string; headAgentName: string };

/** Immutable but for its title and its scores. */
export type Version = DraftFields & {
  id: string;
  orgId: string;
  draftId: string;
  parentVersionId: string | null;
  versionNumber: number;
  title: string;
  evalScores: Record<string, unknown> | null;
  evalStatus: EvalStatus | null;
  /** Of its last evaluation: the id of its job. */
  evalRunId: string | null;
  createdBy: string;
  createdAt: Date;
};

export type DraftDetail = DraftView & { versions: Version[] };
