import { bigint, boolean, type Row } from '#src/adapters/postgres/columns.ts';
import { pick, shape } from '#src/adapters/postgres/shapes.ts';
import { DraftModel } from '#src/modules/drafts/drafts.model.ts';
import type { InvariantCheck } from '../invariants.model.ts';
import { countRows, pagesOf } from './rows.ts';

const counts = { roots: bigint(), astray: bigint(), branches: bigint(), heads: bigint() };
const brokenChain = shape({ ...pick(DraftModel, 'id', 'orgId').columns, ...counts, isNextFree: boolean() });

const brokenChains = `
  select * from (
     select d.id, d.org_id,
            count(*) filter (where v.parent_version_id is null) as roots,
            count(*) filter (where p.draft_id <> d.id or p.version_number >= v.version_number) as astray,
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
   where roots <> 1 or astray > 0 or branches > 0 or heads <> 1 or not is_next_free`;

/** I8: every version comes after its parent, and no number is given twice. */
export const versionChainsAreLinear: InvariantCheck = {
  invariant: 'I8',
  title: "a draft's versions are one chain up to its head, numbered upwards",
  async run({ db }, _patience, found) {
    for await (const drafts of pagesOf(db, brokenChain, brokenChains)) {
      for (const draft of drafts) {
        found({ orgId: draft.orgId, detail: `Draft ${draft.id}: ${faultsOf(draft).join(', ')}.` });
      }
    }
    return countRows(db, 'drafts');
  },
};

function faultsOf({ roots, astray, branches, heads, isNextFree }: Row<typeof brokenChain>): string[] {
  return [
    roots === 1 ? '' : `${roots} versions have no parent`,
    astray === 0 ? '' : `${astray} versions are not numbered above a parent in the same draft`,
    branches === 0 ? '' : `${branches} versions share their parent with another`,
    heads === 1 ? '' : 'the head is not the end of the chain',
    isNextFree ? '' : 'the next number is taken',
  ].filter(Boolean);
}
