import type { Conversations } from './conversations.ts';
import type { Reader } from './dataroom.ts';
import type { Measured } from './measured-lists.ts';
import type { Measure } from './measures.ts';

type Room = Measured<Conversations>;

const get = (name: string, as: Reader, path: string | ((room: Room) => string)): Measure<Room> => ({
  name,
  take: (room) => room.get(as, `/logs/${typeof path === 'string' ? path : path(room)}`),
});

/** Returns a measurement of the list page after `pages` earlier pages. */
function later(name: string, as: Reader, pages: number): Measure<Room> {
  const cursors = new Map<Room, string>();
  const cursorOf = async (room: Room): Promise<string> => {
    let cursor = '';
    for (let page = 0; page < pages; page += 1) {
      const { next_cursor } = Object(await room.read(as, `/logs/conversations${cursor}`));
      if (next_cursor === null) break;
      cursor = `?cursor=${next_cursor}`;
    }
    return cursor;
  };
  return {
    name,
    async take(room) {
      const cursor = cursors.get(room) ?? (await cursorOf(room));
      cursors.set(room, cursor);
      return room.get(as, `/logs/conversations${cursor}`);
    },
  };
}

/** As in `bench/lists/measures`: `common` occurs in many rounds, `rare` in a few rounds of the larger organization. */
const words = {
  common: (room: Room) => wordAt(room, 20),
  middling: (room: Room) => `${wordAt(room, 600)}c`,
  rare: (room: Room) => `${wordAt(room, 6_000)}c`,
};

const wordAt = (room: Room, place: number): string =>
  room.words.slice(place).find((word) => word.length >= 6 && /^[a-z]+$/.test(word)) ?? '';

export const logMeasures: Measure<Room>[] = [
  get('first page', 'all', 'conversations'),
  get('first page with its total', 'all', 'conversations?include_total=true'),
  get('first page of a tenth', 'tenth', 'conversations'),
  get('first page of a hundredth', 'hundredth', 'conversations'),
  get('first page of ten chats', 'few', 'conversations?include_total=true'),
  later('page 50', 'all', 49),
  get('of the busiest agent', 'all', ({ agents }) => `conversations?include_total=true&agent_id=${agents.busy}`),
  get('of the idlest agent', 'all', ({ agents }) => `conversations?include_total=true&agent_id=${agents.idle}`),
  get('in refusal', 'all', 'conversations?state=refusal&include_total=true'),
  get('of an agent in drift', 'all', ({ agents }) => `conversations?state=drift_user&agent_id=${agents.idle}`),
  get('of a period', 'all', 'conversations?include_total=true&date_from=2025-03-05&date_to=2025-11-20T10:30:00Z'),
  get('search: common word', 'all', (room) => `conversations?q=${words.common(room)}`),
  get('search: middling word', 'all', (room) => `conversations?q=${words.middling(room)}`),
  get('search: rare word', 'all', (room) => `conversations?q=${words.rare(room)}&include_total=true`),
  get('search: two words', 'all', (room) => `conversations?q=${words.common(room)}+${words.middling(room)}`),
  get('search: beginning of a word', 'all', (room) => `conversations?q=${words.middling(room).slice(0, 5)}`),
  get('search: common word, of a hundredth', 'hundredth', (room) => `conversations?q=${words.common(room)}`),
  get('search: middling word, of a hundredth', 'hundredth', (room) => `conversations?q=${words.middling(room)}`),
  get('stats', 'all', 'stats'),
  get('stats of a hundredth', 'hundredth', 'stats'),
  get('stats of an agent', 'all', ({ agents }) => `stats?agent_id=${agents.busy}`),
  get('stats of whole months', 'all', 'stats?date_from=2025-01-01&date_to=2025-12-31'),
  get('stats of any period', 'all', 'stats?date_from=2025-01-13T08:00:00Z&date_to=2026-05-20T10:30:00Z'),
  get('recent', 'all', 'recent'),
  get('recent, mine', 'all', 'recent?mine=true'),
  get('recent of a hundredth', 'hundredth', 'recent'),
  get('agents', 'all', 'agents'),
  get('a conversation', 'all', ({ chatId }) => `conversations/${chatId}`),
  get('a round', 'all', ({ chatId }) => `conversations/${chatId}/rounds/5`),
  get('a trend', 'all', ({ chatId }) => `conversations/${chatId}/trend.svg`),
];

/** Requests whose cost grows with the number of results, or that read all rows. */
export const growingLogMeasures: Measure<Room>[] = [
  get(
    'search: common word with its total',
    'all',
    (room) => `conversations?q=${words.common(room)}&include_total=true`,
  ),
  get('export of a hundredth', 'hundredth', 'export'),
  {
    name: 'naive stats (sums over rounds), without HTTP',
    take: ({ orgId, people, query }) =>
      query(
        `select count(distinct c.id), count(*), avg(r.ewma), sum(r.input_tokens), sum(r.cost_usd), avg(r.latency_ms),
                count(*) filter (where r.echo_state like 'drift%')
         from chats c join rounds r on r.chat_id = c.id
         where c.org_id = $1 and c.acl && (
           select array_agg('team:' || id) || array['user:' || $2] from teams where org_id = $1
         )`,
        [orgId, people.all.userId],
      ),
  },
];
