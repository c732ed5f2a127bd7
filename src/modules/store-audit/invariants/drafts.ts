import type { Knex } from 'knex';
import {
  bigintColumn,
  booleanColumn,
  defineRowShape,
  jsonColumn,
  pickColumns,
  queryRows,
  type SqlRow,
  textColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { Judgement } from '#src/domain/judging/judgement.ts';
import { evaluationOutcomeOf } from '#src/domain/judging/outcome.ts';
import { judgeRubricVersion } from '#src/domain/judging/rubric.ts';
import { canonicalJson } from '#src/domain/text/canonical-json.ts';
import { DraftModel } from '#src/modules/drafts/drafts.model.ts';
import { EvaluationJudgeCallModel, EvaluationRunModel } from '#src/modules/evaluations/evaluations.model.ts';
import { countRows, type InvariantCheck, queryRowPagesById } from './invariant.ts';

/** Evaluation runs per page: few, because each is loaded with all its answers and judgements. */
const RUNS_PER_PAGE = 20;

const evaluatedUnit = defineRowShape({
  ...pickColumns(EvaluationJudgeCallModel, 'runId', 'unit').columns,
  verdict: jsonColumn<Judgement>().nullable(),
  answer: textColumn().nullable(),
});
type EvaluatedUnit = SqlRow<typeof evaluatedUnit>;
type CompleteRun = Pick<SqlRow<typeof EvaluationRunModel>, 'id' | 'orgId' | 'specification' | 'results'>;

export const evaluationResultsFollowFromJudgements: InvariantCheck = {
  invariant: 'I7',
  title:
    'aggregating the stored judgements again gives the stored results, and every judgement and answer belongs to an evaluation run',
  async run({ db }, _grace, report) {
    let checked = 0;
    let after = '';
    for (;;) {
      const runs = await completeRunsAfter(db, after);
      const units = await unitsOfRuns(db, runs);
      for (const run of runs) {
        if (!hasSameResults(run, units.get(run.id) ?? [])) {
          report({
            orgId: run.orgId,
            detail: `The judgements of evaluation run ${run.id} do not give its stored results.`,
          });
        }
        after = run.id;
      }
      checked += runs.length;
      if (runs.length < RUNS_PER_PAGE) break;
    }
    for (const orgId of await organizationsWithOrphanedJudgements(db)) {
      report({
        orgId,
        detail: 'The organization has judgements or generated answers that belong to no evaluation run.',
      });
    }
    return checked;
  },
};

async function completeRunsAfter(db: Knex, after: string): Promise<CompleteRun[]> {
  return (
    EvaluationRunModel.table(db)
      .whereNotNull('finishedAt')
      .whereRaw('jsonb_array_length(failed_units) = 0')
      // Skips evaluation runs of older rubrics, because their aggregation rules are no longer in the code.
      .whereRaw(`specification ->> 'rubricVersion' = ?`, [judgeRubricVersion])
      .where('id', '>', after)
      .orderBy('id')
      .limit(RUNS_PER_PAGE)
      .select('id', 'orgId', 'specification', 'results')
  );
}

async function unitsOfRuns(db: Knex, runs: readonly CompleteRun[]): Promise<Map<string, EvaluatedUnit[]>> {
  const query = db('evaluationUnits as u')
    .leftJoin('judgements as j', { 'j.orgId': 'u.orgId', 'j.cacheKey': 'u.cacheKey' })
    .leftJoin('generatedAnswers as a', { 'a.orgId': 'u.orgId', 'a.cacheKey': 'u.cacheKey' })
    .whereIn(
      ['u.orgId', 'u.runId'],
      runs.map(({ id, orgId }) => [orgId, id]),
    )
    .select('u.runId', 'u.unit', 'j.verdict', 'a.answer');
  return Map.groupBy(await queryRows(db, evaluatedUnit, query), ({ runId }) => runId);
}

function hasSameResults({ specification, results }: CompleteRun, units: readonly EvaluatedUnit[]): boolean {
  const verdicts = new Map(units.flatMap(({ unit, verdict }) => (verdict === null ? [] : [[unit, verdict] as const])));
  const answers = new Map(units.flatMap(({ unit, answer }) => (answer === null ? [] : [[unit, answer] as const])));
  const again = evaluationOutcomeOf(specification, { verdicts, answers, failed: [] });
  // Compares canonical JSON, because a `jsonb` column does not keep the order of keys.
  return again.status === 'completed' && canonicalJson(again.results) === canonicalJson(results);
}

async function organizationsWithOrphanedJudgements(db: Knex): Promise<string[]> {
  const orphans = await queryRows(
    db,
    pickColumns(EvaluationRunModel, 'orgId'),
    `select distinct k.org_id
     from (select org_id, cache_key from judgements union all select org_id, cache_key from generated_answers) k
     where not exists (select from evaluation_units u where u.org_id = k.org_id and u.cache_key = k.cache_key)`,
  );
  return orphans.map(({ orgId }) => orgId);
}

const chainCounts = {
  roots: bigintColumn(),
  misnumbered: bigintColumn(),
  branches: bigintColumn(),
  heads: bigintColumn(),
};
const brokenChain = defineRowShape({
  ...pickColumns(DraftModel, 'id', 'orgId').columns,
  ...chainCounts,
  isNextFree: booleanColumn(),
});

const brokenChains = `
  select * from (
     select d.id, d.org_id,
            count(*) filter (where v.parent_version_id is null) as roots,
            count(*) filter (where p.draft_id <> d.id or p.version_number >= v.version_number) as misnumbered,
            count(v.parent_version_id) - count(distinct v.parent_version_id) as branches,
            count(*) filter (where v.id = d.head_version_id and not exists (
              select from draft_versions child where child.parent_version_id = v.id
            )) as heads,
            d.next_version_number > coalesce(max(v.version_number), 0) as is_next_free
     from drafts d
     left join draft_versions v on v.draft_id = d.id
     left join draft_versions p on p.id = v.parent_version_id
     where d.id > :after
     group by d.id
   ) draft
   where roots <> 1 or misnumbered > 0 or branches > 0 or heads <> 1 or not is_next_free`;

export const versionChainsAreLinear: InvariantCheck = {
  invariant: 'I8',
  title: "a draft's versions form one chain that ends at its head, with ascending numbers",
  async run({ db }, _grace, report) {
    for await (const drafts of queryRowPagesById(db, brokenChain, brokenChains)) {
      for (const draft of drafts) {
        report({ orgId: draft.orgId, detail: `Draft ${draft.id}: ${chainFaults(draft).join(', ')}.` });
      }
    }
    return countRows(db, 'drafts');
  },
};

function chainFaults({ roots, misnumbered, branches, heads, isNextFree }: SqlRow<typeof brokenChain>): string[] {
  return [
    roots === 1 ? '' : `${roots} versions have no parent`,
    misnumbered === 0 ? '' : `${misnumbered} versions have no parent with a lower number in the same draft`,
    branches === 0 ? '' : `${branches} versions share their parent with another version`,
    heads === 1 ? '' : 'the head is not the end of the chain',
    isNextFree ? '' : 'the next version number is taken',
  ].filter(Boolean);
}
