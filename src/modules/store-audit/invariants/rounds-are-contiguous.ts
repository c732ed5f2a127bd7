import { bigint, integer } from '#src/adapters/postgres/columns.ts';
import { pick, shape } from '#src/adapters/postgres/shapes.ts';
import { ChatModel } from '#src/modules/chat/chat.model.ts';
import type { InvariantCheck } from '../invariants.model.ts';
import { countRows, pagesOf } from './rows.ts';

const counts = { rounds: bigint(), highest: integer(), unanswered: bigint() };
const chatWithGaps = shape({ ...pick(ChatModel, 'id', 'orgId', 'roundCount').columns, ...counts });

const chatsWithGaps = `
  select * from (
     select c.id, c.org_id, c.round_count, count(r.round) as rounds, coalesce(max(r.round), 0) as highest,
            count(*) filter (where r.status = 'complete' and r.assistant_reply is null) as unanswered
     from chats c
     left join rounds r on r.chat_id = c.id
     where c.id > :after
     group by c.id
   ) chat
   where rounds <> highest or rounds <> round_count or unanswered > 0`;

/** I5: nothing of a conversation is lost or told twice. */
export const roundsAreContiguous: InvariantCheck = {
  invariant: 'I5',
  title: "a chat's rounds are 1..n, and each complete one has its reply",
  async run({ db }, _patience, found) {
    for await (const chats of pagesOf(db, chatWithGaps, chatsWithGaps)) {
      for (const { id, orgId, roundCount, rounds, highest, unanswered } of chats) {
        const counts = `${rounds} rounds up to number ${highest}, and counts ${roundCount}`;
        found({ orgId, detail: `Chat ${id} has ${counts}; ${unanswered} complete ones have no reply.` });
      }
    }
    return countRows(db, 'chats');
  },
};
