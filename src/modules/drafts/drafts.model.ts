import { model } from '#src/adapters/postgres/base-model.ts';
import { double, integer, json, text, textArray, timestamp, uuid, uuidArray } from '#src/adapters/postgres/columns.ts';
import type { DraftFields } from '#src/domain/draft-fields.ts';
import type { EvalStatus } from '#src/domain/judging/eval-status.ts';
import type { Visibility } from '#src/domain/visibility.ts';

export class DraftModel extends model('drafts', {
  id: uuid(),
  orgId: uuid(),
  visibility: text<Visibility>(),
  teamIds: uuidArray(),
  acl: textArray(),
  headVersionId: uuid().nullable(),
  nextVersionNumber: integer(),
  createdBy: uuid(),
  createdAt: timestamp(),
  updatedAt: timestamp(),
}) {}

export class VersionModel extends model('draft_versions', {
  id: uuid(),
  orgId: uuid(),
  draftId: uuid(),
  parentVersionId: uuid().nullable(),
  versionNumber: integer(),
  title: text(),
  agentName: text(),
  agentPrompt: text(),
  tags: textArray(),
  color: text().nullable(),
  iconName: text().nullable(),
  chatModel: text().nullable(),
  temperature: double(),
  maxTokens: integer(),
  anchorWords: json<DraftFields['anchorWords']>(),
  enabledTools: textArray(),
  goldenCases: json<DraftFields['goldenCases']>(),
  evalScores: json<Record<string, unknown>>().nullable(),
  evalStatus: text<EvalStatus>().nullable(),
  createdBy: uuid(),
  createdAt: timestamp(),
  evalRunId: text().nullable(),
}) {}

export class HiddenDraftModel extends model(
  'hidden_drafts',
  {
    orgId: uuid(),
    userId: uuid(),
    draftId: uuid(),
  },
  ['userId', 'draftId'],
) {}

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
