import { boolean, double, integer, json, type Row, text } from '#src/adapters/postgres/columns.ts';
import { pick, rows, shape } from '#src/adapters/postgres/shapes.ts';
import { type EchoState, type FoldState, foldRound, initialFoldState } from '#src/domain/alignment-fold.ts';
import { RoundModel } from '#src/modules/chat/chat.model.ts';
import type { Db } from '#src/ports/database.ts';
import type { InvariantCheck } from '../invariants.model.ts';

const ROUNDS_AT_ONCE = 1_000;

const scoredRound = shape({
  ...pick(RoundModel, 'orgId', 'chatId', 'round', 'refusalKind').columns,
  userScore: double(),
  agentScore: double(),
  neutral: boolean(),
  ewma: double(),
  echoState: text<EchoState>(),
  foldState: json<FoldState>(),
  offTopic: integer(),
  onTopic: integer(),
});

type ScoredRow = Row<typeof scoredRound>;

/** I6: what a chat shows follows from its stored scores alone. */
export const scoresRefold: InvariantCheck = {
  invariant: 'I6',
  title: 'folding the stored scores again gives the stored states and trends',
  async run({ db }, _patience, found) {
    let checked = 0;
    let before: ScoredRow | undefined;
    for (;;) {
      const page = await scoredAfter(db, before);
      for (const row of page) {
        const previous = before?.chatId === row.chatId ? before.foldState : initialFoldState;
        const fault = faultOf(row, previous);
        if (fault !== null) found({ orgId: row.orgId, detail: `Chat ${row.chatId}, round ${row.round}: ${fault}.` });
        before = row;
      }
      checked += page.length;
      if (page.length < ROUNDS_AT_ONCE) return checked;
    }
  },
};

/** In chat and round order, so that each is folded onto the one before it. */
function scoredAfter(db: Db, before: ScoredRow | undefined): Promise<ScoredRow[]> {
  const query = db('rounds as r')
    .join('chats as c', { 'c.orgId': 'r.orgId', 'c.id': 'r.chatId' })
    .join('agents as a', { 'a.orgId': 'c.orgId', 'a.id': 'c.agentId' })
    .whereNotNull('r.scoredAt')
    .modify((query) => {
      if (before !== undefined) query.whereRaw('(r.chat_id, r.round) > (?, ?)', [before.chatId, before.round]);
    })
    .orderBy(['r.chatId', 'r.round'])
    .limit(ROUNDS_AT_ONCE)
    .select([
      ...['r.orgId', 'r.chatId', 'r.round', 'r.userScore', 'r.agentScore', 'r.neutral', 'r.refusalKind'],
      ...['r.ewma', 'r.echoState', 'r.foldState'],
      'a.userOffTopicStreakThreshold as offTopic',
      'a.userOnTopicStreakThreshold as onTopic',
    ]);
  return rows(db, scoredRound, query);
}

function faultOf(row: ScoredRow, previous: FoldState): string | null {
  const scores = {
    user: row.userScore,
    agent: row.agentScore,
    neutral: row.neutral,
    refusal: row.refusalKind !== null,
  };
  const folded = foldRound(previous, scores, { offTopic: row.offTopic, onTopic: row.onTopic });
  const differs = Object.entries(folded).find(
    ([name, value]) => Object.entries(row.foldState).find(([key]) => key === name)?.[1] !== value,
  );
  if (differs !== undefined) return `folds to ${differs[0]} ${differs[1]}, which is not what is stored`;
  if (row.ewma !== folded.ewma || row.echoState !== folded.shown) return 'its columns differ from its folded state';
  return null;
}
