import { model } from '#src/adapters/postgres/base-model.ts';
import {
  double,
  integer,
  json,
  type Row,
  shape,
  text,
  textArray,
  timestamp,
  uuid,
  uuidArray,
} from '#src/adapters/postgres/shapes.ts';
import type { Visibility } from '#src/domain/access/visibility.ts';
import type { DraftFields } from '#src/domain/agents/drafts.ts';
import type { EvalStatus } from '#src/domain/judging/outcome.ts';

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
  version: integer(),
}) {}

export class DraftVersionModel extends model('draft_versions', {
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

/**
 * A draft stores its scope; its versions store the content. The head version is null only in the transaction that
 * inserts the draft.
 */
export const draft = shape({ ...DraftModel.columns, headVersionId: uuid() });

export type Draft = Row<typeof draft>;

export const draftView = shape({ ...draft.columns, createdByName: text(), headAgentName: text() });

export type DraftView = Row<typeof draftView>;

/** A version of a draft; immutable except for its title and scores. */
export type DraftVersion = Row<typeof DraftVersionModel>;

export type DraftWithVersions = DraftView & { versions: DraftVersion[] };
