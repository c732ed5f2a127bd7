import { tableModel } from '#src/adapters/postgres/base-model.ts';
import {
  defineRowShape,
  doubleColumn,
  integerColumn,
  jsonColumn,
  type SqlRow,
  textArrayColumn,
  textColumn,
  timestampColumn,
  uuidArrayColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { Visibility } from '#src/domain/access/visibility.ts';
import type { DraftFields } from '#src/domain/agents/drafts.ts';
import type { EvaluationStatus } from '#src/domain/judging/outcome.ts';

export class DraftModel extends tableModel('drafts', {
  id: uuidColumn(),
  orgId: uuidColumn(),
  visibility: textColumn<Visibility>(),
  teamIds: uuidArrayColumn(),
  acl: textArrayColumn(),
  headVersionId: uuidColumn().nullable(),
  nextVersionNumber: integerColumn(),
  createdBy: uuidColumn(),
  createdAt: timestampColumn(),
  updatedAt: timestampColumn(),
  version: integerColumn(),
}) {}

export class DraftVersionModel extends tableModel('draft_versions', {
  id: uuidColumn(),
  orgId: uuidColumn(),
  draftId: uuidColumn(),
  parentVersionId: uuidColumn().nullable(),
  versionNumber: integerColumn(),
  title: textColumn(),
  agentName: textColumn(),
  agentPrompt: textColumn(),
  tags: textArrayColumn(),
  color: textColumn().nullable(),
  iconName: textColumn().nullable(),
  chatModel: textColumn().nullable(),
  temperature: doubleColumn(),
  maxTokens: integerColumn(),
  anchorWords: jsonColumn<DraftFields['anchorWords']>(),
  enabledTools: textArrayColumn(),
  goldenCases: jsonColumn<DraftFields['goldenCases']>(),
  evalScores: jsonColumn<Record<string, unknown>>().nullable(),
  evalStatus: textColumn<EvaluationStatus>().nullable(),
  createdBy: uuidColumn(),
  createdAt: timestampColumn(),
  evalRunId: textColumn().nullable(),
}) {}

export class HiddenDraftModel extends tableModel(
  'hidden_drafts',
  {
    orgId: uuidColumn(),
    userId: uuidColumn(),
    draftId: uuidColumn(),
  },
  ['userId', 'draftId'],
) {}

/**
 * A draft, whose content is stored in its versions. `headVersionId` is null only within the transaction that inserts
 * the draft.
 */
export const draftRowShape = defineRowShape({ ...DraftModel.columns, headVersionId: uuidColumn() });

export type Draft = SqlRow<typeof draftRowShape>;

export const draftViewRowShape = defineRowShape({
  ...draftRowShape.columns,
  createdByName: textColumn(),
  headAgentName: textColumn(),
});

export type DraftView = SqlRow<typeof draftViewRowShape>;

export type DraftVersion = SqlRow<typeof DraftVersionModel>;

export type DraftWithVersions = DraftView & { versions: DraftVersion[] };
