import { json, type Row, text } from '#src/adapters/postgres/columns.ts';
import { pick, rows, shape } from '#src/adapters/postgres/shapes.ts';
import type { Judgement } from '#src/domain/judging/judgement.ts';
import { outcomeOf } from '#src/domain/judging/outcome.ts';
import { rubricVersion } from '#src/domain/judging/rubric.ts';
import { EvaluationRunModel, EvaluationUnitModel } from '#src/modules/evaluations/evaluations.model.ts';
import type { Db } from '#src/ports/database.ts';
import type { InvariantCheck } from '../invariants.model.ts';

/** Each with all that it was answered. */
const RUNS_AT_ONCE = 20;

const evaluatedUnit = shape({
  ...pick(EvaluationUnitModel, 'runId', 'unit').columns,
  verdict: json<Judgement>().nullable(),
  answer: text().nullable(),
});

type CompleteRun = Pick<Row<typeof EvaluationRunModel>, 'id' | 'orgId' | 'specification' | 'results'>;
type UnitRow = Row<typeof evaluatedUnit>;

/** I7: that there is one judgement for each key, its table sees to. */
export const evaluationsAddUp: InvariantCheck = {
  invariant: 'I7',
  title:
    'adding up the stored judgements again gives the stored results, and nothing is stored that no run has asked for',
  async run({ db }, _patience, found) {
    let checked = 0;
    let after = '';
    for (;;) {
      const runs = await completeAfter(db, after);
      const units = await unitsOf(db, runs);
      for (const run of runs) {
        if (!addsUp(run, units.get(run.id) ?? [])) {
          found({ orgId: run.orgId, detail: `${run.id} adds up to something else than its results.` });
        }
        after = run.id;
      }
      checked += runs.length;
      if (runs.length < RUNS_AT_ONCE) break;
    }
    for (const orgId of await organizationsWithStrays(db)) {
      found({ orgId, detail: 'There are judgements, or answers to cases, that no run has asked for.' });
    }
    return checked;
  },
};

async function completeAfter(db: Db, after: string): Promise<CompleteRun[]> {
  return (
    EvaluationRunModel.table(db)
      .whereNotNull('finishedAt')
      .whereRaw('jsonb_array_length(failed_units) = 0')
      // Others were added up by rules that are gone.
      .whereRaw(`specification ->> 'rubricVersion' = ?`, [rubricVersion])
      .where('id', '>', after)
      .orderBy('id')
      .limit(RUNS_AT_ONCE)
      .select('id', 'orgId', 'specification', 'results')
  );
}

async function unitsOf(db: Db, runs: readonly CompleteRun[]): Promise<Map<string, UnitRow[]>> {
  const query = db('evaluationUnits as u')
    .leftJoin('judgements as j', { 'j.orgId': 'u.orgId', 'j.cacheKey': 'u.cacheKey' })
    .leftJoin('generatedAnswers as a', { 'a.orgId': 'u.orgId', 'a.cacheKey': 'u.cacheKey' })
    .whereIn(
      ['u.orgId', 'u.runId'],
      runs.map(({ id, orgId }) => [orgId, id]),
    )
    .select('u.runId', 'u.unit', 'j.verdict', 'a.answer');
  return Map.groupBy(await rows(db, evaluatedUnit, query), ({ runId }) => runId);
}

function addsUp({ specification, results }: CompleteRun, units: readonly UnitRow[]): boolean {
  const verdicts = new Map(units.flatMap(({ unit, verdict }) => (verdict === null ? [] : [[unit, verdict] as const])));
  const answers = new Map(units.flatMap(({ unit, answer }) => (answer === null ? [] : [[unit, answer] as const])));
  const again = outcomeOf(specification, { verdicts, answers, failed: [] });
  return again.status === 'completed' && sortedJson(again.results) === sortedJson(results);
}

/** The database keeps no order of keys. */
function sortedJson(value: unknown): string {
  return JSON.stringify(value, (_key, item: unknown) =>
    item !== null && typeof item === 'object' && !Array.isArray(item)
      ? Object.fromEntries(Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1)))
      : item,
  );
}

async function organizationsWithStrays(db: Db): Promise<string[]> {
  const strays = await rows(
    db,
    pick(EvaluationRunModel, 'orgId'),
    `select distinct k.org_id
     from (select org_id, cache_key from judgements union all select org_id, cache_key from generated_answers) k
     where not exists (select from evaluation_units u where u.org_id = k.org_id and u.cache_key = k.cache_key)`,
  );
  return strays.map(({ orgId }) => orgId);
}
